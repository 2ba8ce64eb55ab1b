"""The package's own types hold, as its users' checkers read them (py.typed)."""

import os
import pathlib
import subprocess
import sys

import pytest

LIMIT = 300  # seconds; it takes about ten
ROOT = pathlib.Path(__file__).resolve().parents[3]

pytest.importorskip("mypy", reason="mypy is not installed (./dev deps python)")


def mypy(*arguments, folder):
    """What it says; None if all is well."""
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir",
               str(folder / "cache"), *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MYPY")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT)
    return None if done.returncode == 0 else done.stdout + done.stderr


def test_the_package_is_strictly_typed(tmp_path):
    said = mypy("python/tutti", folder=tmp_path)
    assert said is None, said


def test_a_wrong_program_is_found(tmp_path):
    """So the check above can fail, and users' mistakes are seen."""
    program = tmp_path / "program.py"
    program.write_text("import tutti\nimport tutti.distributed as dist\n"
                       "rank: str = dist.get_rank()\n"
                       "tutti.TCPStore('a', 'b')\n", encoding="utf-8")
    said = mypy(str(program), folder=tmp_path)
    assert said is not None and "program.py:3" in said and "program.py:4" in said, said
