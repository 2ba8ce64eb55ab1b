"""Programs of docs/how-to run, and end as the pages say."""

import os
import pathlib
import re
import subprocess
import sys

import stacks

LIMIT = 60
ROOT = pathlib.Path(__file__).resolve().parents[3]
LAUNCHER = [sys.executable, "-m", "tutti.distributed.run"]


def program(page, name):
    """The block of a page that begins with the name of its file."""
    text = (ROOT / "docs/how-to" / page).read_text(encoding="utf-8")
    return next(block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if block.startswith(f"# {name}"))


def test_the_report_of_a_failure(script):
    ended = stacks.run([*LAUNCHER, "--nproc-per-node", "3", script(program("after-a-failure.md", "fails.py"), "fails.py")], LIMIT)
    assert ended.returncode == 1
    assert re.search(r"^tuttirun: rank 1: ValueError: my bug \(.*fails\.py:9\)$", ended.stderr, re.MULTILINE), ended.stderr
    assert re.search(r"^tuttirun: +1 .* exit code 1  <- first$", ended.stderr, re.MULTILINE), ended.stderr


def test_a_restart_begins_at_the_checkpoint(script, tmp_path):
    path = script(program("after-a-failure.md", "restart.py"), "restart.py")
    ended = stacks.run([*LAUNCHER, "--nproc-per-node", "2", "--max-restarts", "3", path], LIMIT, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "done; this attempt began at step 4\n"


def test_survivors_make_a_new_world(script, tmp_path):
    path = script(program("after-a-failure.md", "survive.py"), "survive.py")
    ranks = [subprocess.Popen([sys.executable, path, tmp_path / "meet"], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "3"},
                              stdout=subprocess.PIPE, text=True) for rank in range(3)]
    said = [rank.communicate(timeout=LIMIT)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, -9, 0], said
    assert said[0] == "rank 0 of 3 goes on without rank 1\nrank 0 of 2 has finished: 2\n"
    assert said[2] == "rank 2 of 3 goes on without rank 1\nrank 1 of 2 has finished: 2\n"


def test_a_late_rank_is_named(script):
    path = script(program("hang.md", "late.py"), "late.py")
    ended = stacks.run([*LAUNCHER, "--nproc-per-node", "4", path], LIMIT, env={**os.environ, "TUTTI_TIMEOUT": "2"})
    assert ended.returncode == 1
    assert "waiting for rank 2. See where that rank is, or raise the timeout" in ended.stderr
    assert ", because of rank 2\n" in ended.stderr
