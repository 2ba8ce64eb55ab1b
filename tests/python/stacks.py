"""Where processes stand when their time is over: the stacks of C++ by gdb, those of Python by faulthandler.

conftest.py sets PYTHONFAULTHANDLER for all that tests start. So a Python process that gets SIGABRT writes its stacks to
its standard error, which whoever ends it reads afterwards.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

GDB_LIMIT = 30.0  # seconds for all processes together
LAST_WORDS = 5.0  # seconds from SIGABRT to SIGKILL


def state(pid):
    """A letter of the kernel's, as ps shows it; X if the process is no more. One that has ended stays, as Z,
    until its exit status is fetched: that of an orphan by process 1, which may take its time."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def tree(pids):
    """These processes and all below them, as far as they live."""
    found, left = [], list(pids)
    while left:
        pid = left.pop(0)
        if state(pid) in "ZX":
            continue
        found.append(pid)
        for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                left += map(int, children.read_text().split())
            except OSError:  # this thread has just ended
                pass
    return found


def of_cpp(pids):
    """What gdb shows of each of them."""
    gdb = shutil.which("gdb")
    if gdb is None:
        return "no gdb here: no stacks of C++"
    texts, end = [], time.monotonic() + GDB_LIMIT
    for pid in pids:
        command = [gdb, "--batch", "--nx", "-iex", "set debuginfod enabled off", "-p", str(pid), "-ex", "thread apply all bt 40"]
        try:
            text = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=max(0.1, end - time.monotonic()), check=False).stdout
        except subprocess.TimeoutExpired:
            text = "(gdb took too long)"
        texts.append(f"=== stacks of process {pid}\n{text}")
    return "\n".join(texts)


def end(*pids):
    """Ends these processes and all below them. The stacks of C++; those of Python come from the processes themselves."""
    whole = tree(pids)
    shown = of_cpp(whole)
    for sent in (signal.SIGABRT, signal.SIGKILL):
        for pid in tree(whole):
            os.kill(pid, sent)
        until = time.monotonic() + LAST_WORDS
        while tree(whole) and time.monotonic() < until:
            time.sleep(0.01)
    return shown


def start(command, **options):
    """Starts a program for `finish`, with its output as text."""
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "errors": "replace", **options}
    return subprocess.Popen([str(word) for word in command], **options)


def finish(process, limit=60):
    """What became of it. One that does not end in this time from now on ends with the stacks of its whole tree."""
    with process:
        try:
            out, problem = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            shown = end(process.pid)
            out, problem = process.communicate()
            raise AssertionError(f"{process.args} did not end in {limit:g} s\n{shown}\n{out}\n{problem}") from None
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, problem)


def run(command, limit=60, **options):
    return finish(start(command, **options), limit)


def python(*arguments, limit=60, **options):
    """The same for a program of Python's."""
    return run([sys.executable, *arguments], limit, **options)


def output(command, limit, **options):
    """What a program prints that must end well."""
    done = run(command, limit, **options)
    assert done.returncode == 0, f"{done.args}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def said(*arguments, limit=60, **options):
    """The same for a program of Python's."""
    return output([sys.executable, *arguments], limit, **options)
