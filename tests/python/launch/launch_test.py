"""`tuttirun`, `python -m tutti.distributed.launch` and `.run` with Python programs."""

import os
import shutil
import subprocess
import sys

import pytest

import stacks
from tutti import _programs
from tutti.distributed import launch

LIMIT = 50
TELL = """
import os, sys
names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK")
print(sys.argv[1:], [os.environ[name] for name in names], sys.executable, flush=True)
"""
SUM = """
import array, sys
import tutti.distributed as dist
dist.init_process_group("gloo", init_method="env://")
x = array.array("d", [dist.get_rank() + 1.0])
dist.all_reduce(x)
assert x[0] == 6, x
dist.destroy_process_group()
print("sum", x[0], flush=True)
"""


def start(*command, **options):
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "PYTHON_EXEC")}
    return stacks.run(command, LIMIT, env=environment, **options)


def module(name, *arguments, **options):
    return start(sys.executable, "-m", f"tutti.distributed.{name}", *arguments, **options)


BUG = """
import array
import tutti.distributed as dist
dist.init_process_group()
if dist.get_rank() == 1:
    raise ValueError("my bug")
dist.all_reduce(array.array("d", [1.0]))
"""


def lines_of(done):
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def environment_of(rank, size):
    return [str(rank), str(size), str(rank), str(size), "0", str(rank)]


@pytest.mark.parametrize(("options", "passed"), [
    (["--nproc_per_node=2"], "--local_rank={}"), (["--nproc-per-node", "2"], "--local-rank={}"),
    (["--nproc_per_node", "2", "--use_env"], None), (["--use-env", "--nproc-per-node=2"], None),
    (["--nnodes=1", "--node_rank=0", "--master_addr=127.0.0.1", "--nproc_per_node=2"], "--local_rank={}"),
])
def test_launch_gives_the_local_rank_as_it_once_did(options, passed, script):
    said = lines_of(module("launch", *options, script(TELL), "--epochs", "3"))
    expected = [[*([passed.format(rank)] if passed else []), "--epochs", "3"] for rank in range(2)]
    assert said == [f"{arguments} {environment_of(rank, 2)} {sys.executable}" for rank, arguments in enumerate(expected)]


@pytest.mark.parametrize("name", ["launch", "run"])
def test_one_process_without_options(name, script):
    arguments = ["--local-rank=0"] if name == "launch" else []
    assert lines_of(module(name, script(TELL))) == [f"{arguments} {environment_of(0, 1)} {sys.executable}"]


@pytest.mark.parametrize("options", [["--nproc_per_node=3", "script.py"], ["--nproc-per-node=3", "-m", "script"]])
def test_run_is_tuttirun(options, script):
    assert lines_of(module("run", *options, cwd=script(SUM).parent)) == ["sum 6.0"] * 3


@pytest.mark.full  # only a wheel installs the command
def test_tuttirun_runs_scripts_with_the_python_of_its_environment(script):
    command = shutil.which("tuttirun", path=os.path.dirname(sys.executable))
    if command is None:
        pytest.skip("tutti is not installed here; ./dev test python does that")
    assert lines_of(start(command, "--nproc-per-node", 3, script(SUM))) == ["sum 6.0"] * 3
    line, = lines_of(start(command, script(TELL)))
    said, python = line.rsplit(" ", 1)
    assert said == f"[] {environment_of(0, 1)}"
    # Of the same environment, which has more than one name for it (python, python3).
    assert os.path.dirname(python) == os.path.dirname(sys.executable)
    assert os.path.samefile(python, sys.executable)


def test_a_failure_is_the_launchers_exit_status(script):
    path = script("import os, sys; sys.exit(5 if os.environ['RANK'] == '1' else 0)")
    done = module("launch", "--nproc-per-node=2", path)
    assert done.returncode == 5 and "exit code 5" in done.stderr.replace("status", "code")


def test_from_python_a_failure_is_an_exception(script, capfd):
    launch.main(["--nproc-per-node=2", str(script(TELL))])
    assert len(capfd.readouterr().out.splitlines()) == 2
    with pytest.raises(subprocess.CalledProcessError) as caught:
        launch.main([str(script("raise SystemExit(9)"))])
    assert caught.value.returncode == 9


def test_commands_start_without_standard_streams():
    for command in ("run", "trace"):
        text = f"exec '{sys.executable}' -m tutti {command} --nothing >&-"
        done = stacks.run(["sh", "-c", text], LIMIT, stdout=None)
        assert done.returncode == 2 and "unknown option --nothing" in done.stderr, done.stderr


# Rank 0's helper becomes another user, takes MASTER_PORT and counts who comes.
STRANGER = """
import array, os, select, socket, sys
import tutti.distributed as dist
if os.environ["RANK"] == "0":
    ready, told = os.pipe()
    end, over = os.pipe()
    helper = os.fork()
    if helper == 0:
        os.close(over)
        os.setgroups([])
        os.setgid(54321)
        os.setuid(54321)
        taken = socket.socket()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("", int(os.environ["MASTER_PORT"])))
        taken.listen()
        os.write(told, b"!")
        came = select.select([taken, end], [], [], 40)[0]
        os._exit(0 if came == [end] else 1)
    assert os.read(ready, 1) == b"!"
dist.init_process_group()
x = array.array("d", [dist.get_rank() + 1.0])
dist.all_reduce(x)
dist.destroy_process_group()
if os.environ["RANK"] == "0":
    os.close(over)
    assert os.waitstatus_to_exitcode(os.waitpid(helper, 0)[1]) == 0, "somebody connected there"
print("sum", x[0], flush=True)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a process of another user")
@pytest.mark.parametrize("starter", ["tuttirun", "run"])
def test_nothing_of_ours_goes_to_another_user_at_master_port(starter, script, tmp_path):
    if starter == "tuttirun":
        assert lines_of(module("run", "--nproc-per-node=2", script(STRANGER))) == ["sum 3.0"] * 2
        return
    (tmp_path / "stranger.py").write_text(STRANGER)
    done = start(sys.executable, "-c", "from tutti.multiprocessing import run\nimport runpy\n"
                 "run(runpy.run_path, 2, ('stranger.py',), init=False)", cwd=tmp_path)
    assert lines_of(done) == ["sum 3.0"] * 2


def test_what_is_not_there_is_named(monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match="no-such-program is not in"):
        _programs.path_of("no-such-program")
    script = tmp_path / "tutti-other"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError):  # a script of that name would start us again
        _programs.path_of("tutti-other")
    with pytest.raises(SystemExit, match="--cmake-dir: .* has no files for C"):
        _programs.for_cpp("--cmake-dir")


def test_the_module_run_can_be_called_as_the_function():
    assert stacks.said("-c", """
import tutti.distributed as dist
function = dist.run
import tutti.distributed.run as module
print(function is not module, callable(dist.run), dist.run(max, 2, args=(3, 4)))
""") == "True True [4, 4]\n"


def test_the_error_of_the_program_is_the_first_line_of_the_report(script):
    done = module("run", "--nproc-per-node", 3, script(BUG))
    assert done.returncode == 1
    report = [line for line in done.stderr.splitlines() if line.startswith("tuttirun: ")]
    assert report[0].startswith("tuttirun: rank 1: ValueError: my bug (") and report[0].endswith("script.py:6)")
    others = report[1:next(at for at, line in enumerate(report) if "failed first" in line)]
    assert all("lost rank 1" in line for line in others) and len(others) <= 1
