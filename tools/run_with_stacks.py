#!/usr/bin/env python3
"""Runs a command for a bounded time; a hang ends with the stacks of its whole process tree.

    run_with_stacks.py --timeout 20 [--results file.xml] -- program args...

Exit status: that of the command, 128 + n when signal n ended it, 124 when its time was over,
1 when it left processes behind.
"""

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time

LEAVE_SECONDS = 10.0  # what a test's processes may take to vanish after its main process
KILL_SECONDS = 5.0
STACKS_SECONDS = 30.0

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ADDR_NO_RANDOMIZE = 0x0040000

LIBC = ctypes.CDLL(None, use_errno=True)


def stat_fields(pid):
    """State, parent id, ... of a process; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            # The command name may hold spaces and parentheses: split after the last one.
            return file.read().rpartition(")")[2].split()
    except OSError:
        return None


def living_descendants():
    """All processes below this one. Orphans are among them: this process adopts them."""
    children = {}
    for name in os.listdir("/proc"):
        fields = stat_fields(name) if name.isdigit() else None
        if fields:
            children.setdefault(int(fields[1]), []).append((int(name), fields[0]))
    found, todo = [], [os.getpid()]
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


def print_stacks(pids):
    gdb = shutil.which("gdb")
    py_spy = shutil.which("py-spy")
    deadline = time.monotonic() + STACKS_SECONDS
    if gdb is None:
        print("no gdb here: no stacks", flush=True)
    for pid in pids:
        line = command_line(pid)
        print(f"\n=== stacks of process {pid}: {line}", flush=True)
        commands = []
        if py_spy is not None and "python" in line:
            commands.append([py_spy, "dump", "--pid", str(pid)])
        if gdb is not None:
            commands.append([gdb, "--batch", "--nx", "-iex", "set debuginfod enabled off",
                             "-p", str(pid), "-ex", "thread apply all bt 40"])
        for command in commands:
            left = deadline - time.monotonic()
            if left <= 0:
                print("(no time left for more stacks)", flush=True)
                return
            try:
                subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                               timeout=left, check=False)
            except subprocess.TimeoutExpired:
                print(f"({os.path.basename(command[0])} took too long)", flush=True)


def kill_descendants():
    """Kills until nothing is left: a process may fork while we are looking."""
    end = time.monotonic() + KILL_SECONDS
    while time.monotonic() < end:
        pids = living_descendants()
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    print(f"could not be killed: {living_descendants()}", flush=True)


def leftovers(seconds):
    """Processes still there so long after the command has ended."""
    end = time.monotonic() + seconds
    while (pids := living_descendants()) and time.monotonic() < end:
        time.sleep(0.02)
    return pids


def start(command, args):
    environment = dict(os.environ)
    # GoogleTest then names only what fails: in a long log the rest would hide it.
    environment.setdefault("GTEST_BRIEF", "1")
    if args.results:
        os.makedirs(os.path.dirname(args.results), exist_ok=True)
        if os.path.exists(args.results):
            os.remove(args.results)
        environment["GTEST_OUTPUT"] = f"xml:{args.results}"

    def before_exec():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if args.fixed_addresses:
            LIBC.personality(ADDR_NO_RANDOMIZE)  # refused in some containers: then as it was

    return subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                            start_new_session=True, preexec_fn=before_exec)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timeout", type=float, required=True, help="seconds")
    parser.add_argument("--leave", type=float, default=LEAVE_SECONDS, metavar="SECONDS",
                        help="what its processes may take to vanish after it")
    parser.add_argument("--results", help="where a GoogleTest program writes its results")
    parser.add_argument("--fixed-addresses", action="store_true",
                        help="no address randomisation; ThreadSanitizer of GCC 12 needs that "
                             "where the kernel randomises more than 28 bits")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("no command")

    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def stop(signum, _frame):
        kill_descendants()
        sys.exit(128 + signum)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    child = start(command, args)
    try:
        status = child.wait(timeout=args.timeout)
    except subprocess.TimeoutExpired:
        print(f"\nTIME IS OVER after {args.timeout:g} s: {' '.join(command)}", flush=True)
        print_stacks(living_descendants())
        kill_descendants()
        return 124

    left = leftovers(args.leave)
    for pid in left:
        print(f"left behind: process {pid}: {command_line(pid)}", flush=True)
    if left:
        kill_descendants()
        return 1
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
