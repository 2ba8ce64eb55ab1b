#!/usr/bin/env python3
"""Shows where processes stand, before they are killed: their threads in C++, and those of Python in Python.

    stacks.py PID...            these processes
    stacks.py --below PID       all processes below this one

gdb shows the threads, and lets CPython write its own stacks into a file: nothing but gdb is needed. Where it may
not attach, a Python process that has a faulthandler (PYTHONFAULTHANDLER=1) is sent SIGABRT, which it answers
with the stacks of its threads on its own standard error. `environment` sets that variable.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 45.0  # for all processes together
EACH_SECONDS = 15.0
ANSWER_SECONDS = 1.0


def stat_fields(pid):
    """State, parent id, ... of a process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The command name may hold spaces and parentheses: split after the last one.
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def living_below(root):
    """All processes below this one."""
    children = {}
    for name in os.listdir("/proc"):
        fields = stat_fields(name) if name.isdigit() else None
        if fields:
            children.setdefault(int(fields[1]), []).append((int(name), fields[0]))
    found, todo = [], [root]
    while todo:
        for pid, state in children.get(todo.pop(), []):
            todo.append(pid)
            if state not in "ZX":
                found.append(pid)
    return sorted(found)


def command_line(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "?"


def environment(of=None):
    """For a process that is to be able to tell its Python stacks where gdb may not attach to it."""
    return dict(os.environ if of is None else of, PYTHONFAULTHANDLER="1")


def is_python(pid):
    """Whether CPython runs in it: as its program, or as a library."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            return any("python" in line.rpartition("/")[2] for line in file if "r-xp" in line)
    except OSError:
        return False


def catches(pid, number):
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            caught = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
        return bool(int(caught, 16) >> (number - 1) & 1)
    except (OSError, StopIteration):
        return False


def run_gdb(gdb, pid, seconds):
    """Whether gdb has shown the threads. Those of Python stand behind them."""
    with tempfile.NamedTemporaryFile(prefix="tutti_stacks") as told:
        command = [gdb, "--batch", "--nx", "-iex", "set debuginfod enabled off", "-p", str(pid),
                   "-ex", "thread apply all bt 40"]
        if is_python(pid):
            # CPython's own function for crashes: it takes no lock and no memory. Nothing else runs meanwhile.
            command += ["-ex", "set scheduler-locking on", "-ex", "set unwindonsignal on", "-ex",
                        f'set $told = ((int (*)(const char *, int)) open)("{told.name}", {os.O_WRONLY})', "-ex",
                        "call ((void *(*)(int, void *, void *)) _Py_DumpTracebackThreads)($told, 0, 0)", "-ex",
                        "call ((int (*)(int)) close)($told)"]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=seconds, check=False)
        except subprocess.TimeoutExpired as late:
            print((late.stdout or b"").decode(errors="replace"), "(gdb took too long)", flush=True)
            return False
        print(done.stdout, flush=True)
        python = told.read().decode(errors="replace")
        if python:
            print(f"--- Python stacks of process {pid}\n{python}", flush=True)
        return "Thread 1" in done.stdout and (bool(python) or not is_python(pid))


def print_stacks(pid, seconds=EACH_SECONDS):
    """Prints what can be known of this process; it may be ended by that."""
    print(f"\n=== stacks of process {pid}: {command_line(pid)}", flush=True)
    gdb = shutil.which("gdb")
    if gdb is None:
        print("no gdb here: no stacks of C++", flush=True)
    elif run_gdb(gdb, pid, seconds):
        return
    if is_python(pid) and catches(pid, signal.SIGABRT):
        print(f"process {pid} tells its Python stacks on its own standard error", flush=True)
        os.kill(pid, signal.SIGABRT)
        time.sleep(ANSWER_SECONDS)


def threads_of(pid):
    fields = stat_fields(pid)
    return int(fields[17]) if fields else 0


def print_all(pids):
    """Of several processes, as far as the time for them allows: those with most threads first, since shells and
    programs that sleep tell nothing."""
    deadline = time.monotonic() + SECONDS
    for pid in sorted(pids, key=threads_of, reverse=True):
        left = min(deadline - time.monotonic(), EACH_SECONDS)
        if left <= 0:
            print("(no time left for more stacks)", flush=True)
            return
        print_stacks(pid, left)


def run(command, seconds, **options):
    """As subprocess.run, with Popen's options: before it kills a command whose time is over, it shows where
    the command and all processes below it stand."""
    with subprocess.Popen(command, **options) as process:
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            print_all([process.pid, *living_below(process.pid)])
            process.kill()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def main(arguments):
    if arguments[:1] == ["--below"]:
        ours = {os.getpid()}
        print_all([pid for pid in living_below(int(arguments[1])) if pid not in ours])
    elif arguments:
        print_all([int(pid) for pid in arguments])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
