"""Programs whose time is limited. One that is not done in time shows the stacks of all its threads before it is killed: those
of C++ by gdb, and those of Python by its faulthandler."""

import os
import pathlib
import signal
import subprocess
import sys
import time

ANSWER = 5.0  # seconds in which Python tells its stacks


def _below(root):
    """The processes below this one."""
    children = {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()  # after the name, which may hold spaces
        except OSError:
            continue  # it is gone
        if fields[0] not in "ZX":
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, left = [], [root]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return sorted(found)


def _gdb(pid):
    try:
        return subprocess.run(["gdb", "--batch", "--nx", "-iex", "set debuginfod enabled off", "-p", str(pid), "-ex",
                               "thread apply all bt 40"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=30, check=False).stdout
    except FileNotFoundError:
        return "there is no gdb here: no stacks of C++"
    except subprocess.TimeoutExpired:
        return "gdb took too long"


def _signal(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def end(pids):
    """Ends these processes, each of which has a faulthandler. Their stacks of C++ are returned; their own standard error has
    those of Python, and is read by somebody else meanwhile."""
    texts = [f"\n=== process {pid}\n{_gdb(pid)}" for pid in pids]
    _signal(pids, signal.SIGABRT)
    return "".join(texts)


def start(command, **options):
    """Starts a program for `finish`. Its output is captured."""
    environment = {**(options.pop("env", None) or os.environ), "PYTHONFAULTHANDLER": "1"}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([str(one) for one in command], text=True, errors="replace", env=environment, **options)


def finish(process, limit=60):
    """What became of a program that has this time from now on."""
    with process:
        try:
            output = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            pids = [process.pid, *_below(process.pid)]
            stacks = end(pids)
            try:
                process.communicate(timeout=ANSWER)
            except subprocess.TimeoutExpired:
                pass
            _signal({*pids, *_below(process.pid)}, signal.SIGKILL)
            told = "\n".join(filter(None, process.communicate()))
            raise AssertionError(f"not done within {limit} s: {process.args}\n{told}\n{stacks}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, *output)


def run(command, limit=60, **options):
    return finish(start(command, **options), limit)


def python(*arguments, **options):
    """The same for a program of Python's."""
    return run([sys.executable, *arguments], **options)
