"""The commands `tuttirun` and `tutti`: they start the programs that lie in this package."""

import os
import pathlib
import shutil
import subprocess
import sys
from typing import NoReturn

from tutti import _tutti

# Where the module lies: in a build folder the Python files beside it are links.
_PACKAGE = pathlib.Path(_tutti.__file__).parent
# In a wheel; in a build folder, where the package is <build>/python/tutti.
_PLACES = ("bin", "../../bin")


def path_of(name: str) -> str:
    """Where the program `name` ("tuttirun", "tutti") lies: in this package, beside it in a build
    folder, or in PATH. FileNotFoundError says where was looked."""
    looked = [_PACKAGE / place / name for place in _PLACES]
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


def for_cpp(option: str) -> str:
    """The options that a C++ build needs: --cmake-dir, the folder of tuttiConfig.cmake; --includes, the compiler's option for
    our headers."""
    folder = _PACKAGE / "lib" / "cmake" / "tutti"
    if not folder.is_dir():
        raise SystemExit(f"tutti: {option}: {_PACKAGE} has no files for C++; install tutti's wheel")
    return str(folder) if option == "--cmake-dir" else f"-I{_PACKAGE / 'include'}"


def start(name: str, arguments: list[str]) -> NoReturn:
    """Becomes the program `name`. Programs that it starts with Python get this one."""
    program = path_of(name)
    os.environ.update(_environment())
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:  # as the shell's >&- makes it
            stream.flush()
    os.execv(program, [name, *arguments])


def run(name: str, arguments: list[str]) -> None:
    """Runs the program `name` and returns when it has ended well; else subprocess.CalledProcessError."""
    subprocess.run([path_of(name), *arguments], check=True, env={**os.environ, **_environment()})


def tuttirun() -> NoReturn:
    """The command `tuttirun`."""
    start("tuttirun", sys.argv[1:])


def tutti() -> NoReturn:
    """The command `tutti`."""
    start("tutti", sys.argv[1:])


def _environment() -> dict[str, str]:
    """Which Python the launcher takes, unless somebody has said so."""
    if os.environ.get("PYTHON_EXEC") or os.environ.get("PYTHON"):
        return {}
    return {"PYTHON_EXEC": sys.executable}


def _is_script(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(2) == b"#!"
