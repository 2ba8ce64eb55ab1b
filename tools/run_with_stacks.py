#!/usr/bin/env python3
"""Runs a command for a bounded time; a hang ends with the stacks of its whole process tree.

    run_with_stacks.py --timeout 20 [--results file.xml] -- program args...

Exit status: that of the command, 128 + n when signal n ended it, 124 when its time was over,
1 when it left processes behind.
"""

import argparse
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "support"))
import stacks  # noqa: E402

LEAVE_SECONDS = 10.0  # what a test's processes may take to vanish after its main process
KILL_SECONDS = 5.0

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
ADDR_NO_RANDOMIZE = 0x0040000

LIBC = ctypes.CDLL(None, use_errno=True)


def living_descendants():
    """All processes below this one. Orphans are among them: this process adopts them."""
    return stacks.living_below(os.getpid())


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
    environment = stacks.environment()
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
        stacks.print_all(living_descendants())
        kill_descendants()
        return 124

    left = leftovers(args.leave)
    for pid in left:
        print(f"left behind: process {pid}: {stacks.command_line(pid)}", flush=True)
    if left:
        kill_descendants()
        return 1
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
