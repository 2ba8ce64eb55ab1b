"""A signal to tuttirun, and ranks of Python that write a checkpoint before they end."""

import signal
import sys

import pytest

import stacks

# The helper writes the checkpoint; it would die of the signal, and so would the wrapper.
CHECKPOINT = """
import signal, subprocess, sys
import tutti.distributed as dist

WRITE = "import sys, time; sys.stdin.readline(); time.sleep(float(sys.argv[2])); open(sys.argv[1], 'w').write('whole')"

def save(number, frame):
    helper.communicate(b"now\\n")
    sys.exit(helper.returncode)

dist.init_process_group()
folder, seconds = sys.argv[1:]
helper = subprocess.Popen([sys.executable, "-c", WRITE, f"{folder}/{dist.get_rank()}", seconds], stdin=subprocess.PIPE)
signal.signal(signal.SIGTERM, save)
dist.barrier()
print("ready", flush=True)
while True:
    signal.pause()
"""
WRAPPED = ["--no-python", "bash", "-c", '"$0" "$@"; code=$?; exit $code', sys.executable]


def checkpoint(program, folder, seconds, *before):
    folder.mkdir()
    with stacks.start([sys.executable, "-m", "tutti.distributed.run", *before, str(program), str(folder), str(seconds)]) as job:
        ready = 0
        while ready < 2:
            line = job.stdout.readline()
            assert line, job.stderr.read()
            ready += line == "ready\n"
        job.send_signal(signal.SIGTERM)
        done = stacks.finish(job)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert [(folder / f"{rank}").read_text() for rank in range(2)] == ["whole", "whole"]


@pytest.mark.parametrize("wrapper", [[], WRAPPED], ids=["alone", "wrapped"])
def test_a_checkpoint_by_a_helper_is_whole(script, tmp_path, wrapper):
    checkpoint(script(CHECKPOINT), tmp_path / "out", 1, "-n", "2", "--grace", "0.2", *wrapper)


@pytest.mark.full
def test_a_checkpoint_of_12_seconds_is_whole(script, tmp_path):
    checkpoint(script(CHECKPOINT), tmp_path / "out", 12, "-n", "2")


PRINTS = """
import sys, tutti.distributed as dist
def rank(folder):
    dist.barrier()
    return dist.get_rank()
if __name__ == "__main__":
    answers = [dist.run(rank, 2, args=(sys.argv[1],), start_method=method) for method in ("spawn", "fork")]
    open(sys.argv[1] + "/answers", "w").write(repr(answers))
"""


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_run_without_standard_streams(script, tmp_path, closed):
    assert stacks.run(["sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, script(PRINTS), tmp_path]).returncode == 0
    assert (tmp_path / "answers").read_text() == "[[0, 1], [0, 1]]"


WRAPS = """
import subprocess, sys, tempfile, pathlib
import tutti.distributed as dist
REAL = "import tutti.distributed as dist; dist.init_process_group(); dist.barrier(); assert dist.get_world_size() == 2"
def rank(folder):
    files = [path for path in pathlib.Path(folder).rglob("*") if path.is_file() and path.stat().st_size == 32]
    return files, subprocess.run([sys.executable, "-c", REAL]).returncode
if __name__ == "__main__":
    tempfile.tempdir = sys.argv[1]
    for method in ("spawn", "fork"):
        assert dist.run(rank, 2, args=(sys.argv[1],), init=False, start_method=method) == [([], 0)] * 2
    print("met")
"""


def test_ranks_of_run_may_be_wrappers(script, tmp_path):
    folder = tmp_path / "tmp"
    folder.mkdir()
    assert stacks.said(str(script(WRAPS)), str(folder)) == "met\n"
