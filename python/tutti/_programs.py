"""The commands `tuttirun` and `tutti`: they start the programs that lie in this package."""

import os
import pathlib
import shutil
import sys
from typing import NoReturn

# In a wheel; in a build folder, where the package is <build>/python/tutti.
_PLACES = ("_bin", "../../bin")


def path_of(name: str) -> str:
    """Where the program `name` ("tuttirun", "tutti") lies: in this package, beside it in a build
    folder, or in PATH. FileNotFoundError says where was looked."""
    package = pathlib.Path(__file__).resolve().parent
    looked = [package / place / name for place in _PLACES]
    for path in looked:
        if path.is_file() and os.access(path, os.X_OK):
            return str(path.resolve())
    in_path = shutil.which(name)
    # The command that pip installs has the same name and would start us again.
    if in_path is not None and not _is_script(in_path):
        return in_path
    places = ", ".join(str(path) for path in looked)
    raise FileNotFoundError(f"the program {name} is not in {places} and not in PATH; install tutti's wheel, or "
                            f"build the library and put its bin folder into PATH")


def start(name: str, arguments: list[str]) -> NoReturn:
    """Becomes the program `name`. Programs that it starts with Python get this one."""
    program = path_of(name)
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(program, [name, *arguments])


def tuttirun() -> NoReturn:
    start("tuttirun", sys.argv[1:])


def tutti() -> NoReturn:
    start("tutti", sys.argv[1:])


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
