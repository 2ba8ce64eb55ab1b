"""The programs in docs/learn/tutorial.md, docs/reference/python.md and the front pages run, and say what the pages say."""

import importlib.util
import os
import pathlib
import re
import secrets
import subprocess
import sys

import pytest

import ranks
import stacks
from tutti import _programs

LIMIT = 60
ROOT = pathlib.Path(__file__).resolve().parents[3]
LAUNCHER = [sys.executable, "-m", "tutti.distributed.run"]


def programs(page):
    """The Python blocks of a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def run(*command):
    return stacks.output(command, LIMIT)


MEAN, PI = (next(text for text in programs("docs/learn/tutorial.md") if word in text) for word in ("mean", "share_of_pi"))


@pytest.mark.parametrize("size", ranks.sizes(4, others=(1, 2)))
def test_the_first_program(size, script):
    said = run(*LAUNCHER, "--nproc-per-node", str(size), script(MEAN))
    assert said == f"{size} process(es): mean 499.5\n"


def test_on_two_hosts_with_different_keys(script, tmp_path):
    secret = ranks.secret_in(tmp_path, secrets.token_bytes(32))
    port = str(ranks.free_port())
    path = script(MEAN)
    nodes = [subprocess.Popen(
        [*LAUNCHER, "--nnodes", "2", "--node-rank", str(node), "--master-addr", "127.0.0.1", "--master-port", port,
         "--rdzv-id", "mean", "--nproc-per-node", "2", "--secret-file", str(secret), path],
        env={**os.environ, "TUTTI_HOST_ID": f"host {node}"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True) for node in (0, 1)]
    try:
        said = [node.communicate(timeout=LIMIT) for node in nodes]
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{stacks.end(*(node.pid for node in nodes))}\n{[node.communicate() for node in nodes]}") from None
    assert [node.returncode for node in nodes] == [0, 0], said
    assert said[0][0] == "4 process(es): mean 499.5\n" and said[1][0] == ""


def test_from_a_program_of_ones_own(script):
    said = run(sys.executable, script("import numpy as np\nimport tutti.distributed as dist\n" + PI))
    assert said.startswith("[3.14159265") and said.count(",") == 3


def test_programs_of_the_page_about_python(script):
    first, second = (text for text in programs("docs/reference/python.md") if "import tutti" in text)
    said = run(*LAUNCHER, "--nproc-per-node", "2", script(first))
    assert sorted(said.splitlines()) == ["0 [3. 3. 3. 3.]", "1 [3. 3. 3. 3.]"]
    assert run(sys.executable, script(second)) == "[0, 10, 20, 30]\n"


@pytest.mark.parametrize("page", ranks.one_by_rotation(["README.md", "README.zh-CN.md", "bindings/python/README.md"]))
def test_programs_of_the_front_pages(page, script, tmp_path):
    found = programs(page)
    shown = (ROOT / page).read_text(encoding="utf-8")
    commands = re.findall(r"^ *(tuttirun .*program\.py.*)$", shown, re.MULTILINE) or ["tuttirun --nproc-per-node 2 program.py"]
    assert found and (commands[0] in shown or page == "bindings/python/README.md")
    # The command that a wheel installs, else the program in the build folder.
    places = [pathlib.Path(sys.executable).parent, pathlib.Path(_programs.path_of("tuttirun")).parent, os.environ["PATH"]]
    environment = os.environ | {"PATH": os.pathsep.join(map(str, places)), "PYTHON_EXEC": sys.executable}
    for text in found:
        if "tutti.torch" in text and not importlib.util.find_spec("torch"):
            continue
        script(text, "program.py")
        for command in commands:
            stacks.output(["sh", "-c", command], LIMIT, cwd=tmp_path, env=environment)
