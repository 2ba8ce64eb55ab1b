"""A limit that is over shows where processes stand, in Python and in C++."""

import re
import shutil
import subprocess
import sys

import pytest

import ranks
import stacks

HANGS = """
def wait_for_godot():
    time.sleep(1000)
"""


def shows_cpp(text):
    """A frame of the library, where gdb is there and may look."""
    return shutil.which("gdb") is None or "ptrace: " in text or re.search(r"^#\d+ .*tutti", text, re.MULTILINE)


@pytest.mark.parametrize("limit_of", ["finish", pytest.param("await_said", marks=pytest.mark.full)])  # gdb takes seconds
def test_a_rank_that_hangs_shows_its_stacks(limit_of, tmp_path):
    with pytest.raises(AssertionError) as told, ranks.Job(HANGS + """
if RANK == 1:
    say("waits")
    wait_for_godot()
say("enters")
world.barrier()
""", 2, tmp_path) as job:
        job.await_said(1, "waits\n")
        job.await_said(0, "enters\n")
        job.await_asleep(0)
        job.end = 0.0  # its limit is over
        job.finish() if limit_of == "finish" else job.await_said(1, "more")
    text = str(told.value)
    assert ("rank 0 did not end" if limit_of == "finish" else "rank 1 did not say 'more'") in text
    assert re.search(r'=== rank 0 said\n(.*\n)*enters\n(.*\n)*  File "<string>", line \d+ in <module>', text), text
    assert re.search(r"=== rank 1 said\nwaits\n(.*\n)*.*in wait_for_godot\n", text), text
    assert shows_cpp(text), text
    assert all(stacks.state(process.pid) == "X" for process in job.processes)


@pytest.mark.full
def test_a_command_that_hangs_shows_the_stacks_of_its_whole_tree():
    source = "import os, tutti\nos.fork()\ndef wait():\n  tutti.HashStore().get('nothing')\nos.write(1, b'begins\\n')\nwait()"
    with pytest.raises(AssertionError, match=r"did not end in 20 s") as told:
        stacks.run([sys.executable, "-c", source], 20)  # time to import tutti
    text = str(told.value)
    assert text.count("begins\n") == 2 and text.count("in wait\n") == 2 and text.count("=== stacks of process") in (0, 2), text
    assert shows_cpp(text), text


def test_what_ends_in_time_is_told_as_it_is():
    assert stacks.output([sys.executable, "-c", "print(3)"], 60) == "3\n"
    done = stacks.run([sys.executable, "-c", "import sys; print(4, file=sys.stderr); sys.exit(5)"], 60)
    assert (done.returncode, done.stdout, done.stderr) == (5, "", "4\n") and isinstance(done, subprocess.CompletedProcess)
