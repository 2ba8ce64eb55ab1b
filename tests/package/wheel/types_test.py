"""The types of the package hold, as its users' checkers read them (py.typed), and so do those of the examples."""

import json
import os
import pathlib
import re
import shutil
import sys

import pytest

import stacks

LIMIT = 300  # seconds; each takes about ten
ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = "examples/python"

# Each line that ends with `# wrong` is an error, and no other one is.
PROGRAM = """\
import numpy as np
import tutti
import tutti.distributed as dist
from datetime import timedelta

x = np.ones(3)
rank: str = dist.get_rank()  # wrong
tutti.TCPStore("a", "b")  # wrong

work = dist.all_reduce(x, async_op=True)
work.wait()
work.wait(3), work.wait(3.0), work.wait(timedelta(seconds=3))
dist.all_reduce(x, dist.ReduceOp.SUM, None, True).wait()
dist.all_reduce(x).wait()  # wrong
dist.all_gather([x], x, async_op=False).wait()  # wrong
later = dist.all_reduce(x, async_op=rank == "0")
later.wait()  # wrong
if later is not None:
    later.wait()
dist.isend(x, 1).wait()
dist.all_reduce_coalesced([x], async_op=True).wait()
dist.barrier(async_op=True).wait()
dist.barrier(None, True).wait()

dist.all_reduce(x, dist.ReduceOp.MAX), dist.all_reduce(x, dist.premul_sum(2.0)), dist.all_reduce(x, tutti.ReduceOp.MAX)
dist.all_reduce(x, dist.UserOp("later", lambda a, b: b)), dist.reduce(x, 0, dist.UserOp("later", max, block=4))
dist.all_reduce(x, dist.UserOp("later"))  # wrong
dist.all_reduce(x, dist.UserOp("later", 3))  # wrong
dist.all_reduce(x, "sum")  # wrong
dist.all_reduce(x, op=max)  # wrong
dist.all_reduce(x, group="world")  # wrong
dist.all_reduce(x, group=dist.new_group([0]))
dist.all_reduce(x, group=dist.group.WORLD)

for timeout in (3, 3.0, timedelta(seconds=3), None):
    dist.barrier(timeout=timeout)
    dist.init_process_group(timeout=timeout)
    dist.new_group([0], timeout)
dist.barrier(timeout="3")  # wrong
dist.new_group([0], "3")  # wrong
dist.init_process_group(timeout="3")  # wrong
dist.TCPStore("a", 1, timeout=3)

world = tutti.init_process_group(timeout=3)
world.all_reduce(x, async_op=True).wait()
world.all_reduce(x).wait()  # wrong
world.all_reduce(x, "sum")  # wrong

print(tutti.distributed.get_world_size() + 1, tutti.rank0.print)
tutti.distributed.get_world()  # wrong
dist.all_redcue(x)  # wrong
dist.distributed_c10d._get_default_group()
"""
WRONG = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# wrong")}


@pytest.fixture
def project(tmp_path):
    """A folder with the package and the examples, and a torch of which nothing is known."""
    for source, target in (("bindings/python/tutti", "tutti"), ("bindings/torch/tutti/torch", "tutti/torch")):
        shutil.copytree(ROOT / source, tmp_path / target, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / EXAMPLES, tmp_path / "examples")
    # Each module that is imported, since a checker would look for the others in a torch that is installed.
    for name in {name for file in (tmp_path / "tutti").rglob("*.py")
                 for name in re.findall(r"^\s*(?:from|import) (torch[\w.]*)", file.read_text(encoding="utf-8"), re.MULTILINE)}:
        folder = tmp_path / name.replace(".", "/")
        folder.mkdir(parents=True, exist_ok=True)
        for module in (folder, *folder.parents[:name.count(".")]):
            (module / "__init__.pyi").write_text("from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n",
                                                 encoding="utf-8")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    return tmp_path


def checked(*command, folder):
    """What a checker of types says, and whether all is well."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MYPY", "PYRIGHT"))}
    done = stacks.run(command, LIMIT, cwd=folder, env=environment)
    return done.returncode == 0, done.stdout + done.stderr


def mypy(*arguments, folder, config):
    """mypy --strict."""
    pytest.importorskip("mypy", reason="mypy is not installed (./dev deps python)")
    return checked(sys.executable, "-m", "mypy", "--config-file", str(config), "--cache-dir", str(folder / "cache"),
                   *arguments, folder=folder)


def mypy_of_a_user(*files, folder):
    """As somebody runs it who has installed tutti: with its types, and without its errors."""
    (folder / "mypy.ini").write_text("[mypy]\nstrict = true\n[mypy-tutti.*,torch.*]\nfollow_imports = silent\n",
                                     encoding="utf-8")
    return mypy(*files, folder=folder, config=folder / "mypy.ini")


def pyright(*files, folder):
    """The errors: path and line of each, and its text."""
    pytest.importorskip("pyright", reason="pyright is not installed (./dev deps python)")
    (folder / "pyrightconfig.json").write_text(json.dumps({
        "pythonVersion": "3.10", "reportMissingImports": False, "reportMissingModuleSource": False}), encoding="utf-8")
    _, said = checked(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", *files,
                      folder=folder)
    found = json.loads(said[said.index("{"):said.rindex("}") + 1])
    assert found["summary"]["filesAnalyzed"] > 0, said
    return [(each["file"], each["range"]["start"]["line"] + 1, each["message"]) for each in found["generalDiagnostics"]
            if each["severity"] == "error"]


def test_the_package_is_strictly_typed(project):
    well, said = mypy("tutti", folder=project, config=ROOT / "pyproject.toml")
    assert well, said


def test_the_examples_are_strictly_typed(project):
    for folder in (project / "examples", project / "examples/12_rendezvous"):  # two of them are called spawn
        well, said = mypy_of_a_user(*map(str, sorted(folder.glob("*.py"))), folder=project)
        assert well, said


def test_pyright_finds_nothing(project):
    assert pyright("tutti", "examples", folder=project) == []


def test_mypy_finds_what_is_wrong(project):
    well, said = mypy_of_a_user("program.py", folder=project)
    assert not well and {int(line) for line in re.findall(r"program\.py:(\d+): error", said)} == WRONG, said


def test_pyright_finds_what_is_wrong(project):
    found = pyright("program.py", folder=project)
    assert {line for _, line, _ in found} == WRONG, found
