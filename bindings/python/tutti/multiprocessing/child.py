"""The process's side of `spawn`."""

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import pickle
import signal
import sys
import threading
import time
import traceback
from typing import Any, NamedTuple

from tutti.multiprocessing.returned import Returned
from tutti.multiprocessing.shipping import Shipped

# Of a job that this process itself may belong to.
OF_ANOTHER_JOB = ("TUTTI_INSECURE", "TUTTI_JOB", "TUTTI_RECORD_FD", "TUTTI_SECRET_FD", "TUTTI_SECRET_FILE", "TUTTI_STORE_PORT")

_PR_SET_PDEATHSIG = 1
# Codes of tutti's errors that tell of another rank's failure.
_CONSEQUENCES = {"peer_lost", "peer_left", "aborted"}


class Failure(NamedTuple):
    """An exception that left the function of a process."""

    when: float  # time.monotonic(), the same clock in all processes of a host
    is_consequence: bool  # it only tells that another rank has failed
    trace: str
    pid: int = -1  # where the parent does not know it


def main(index: int, parent: int | None, call: Shipped, error_file: str, returned: Returned) -> None:
    """Calls fn(index, *args); what leaves it is written to `error_file`. The end of the process that has asked for
    this one ends it. The kernel tells of it where `parent`, its number, is given: where its main thread has started
    this process. None if a server has, or another thread, whose end the kernel takes for its parent's."""
    _die_with(parent)
    process = os.getpid()
    try:
        fn, args = call.open()
        returned.follow_exec(index)
        fn(index, *args)
    except SystemExit as error:
        if (error.code is None or isinstance(error.code, int) and error.code == 0) and os.getpid() == process:
            returned.mark(index)
        raise
    except BaseException as error:  # noqa: BLE001: the parent raises it; where Ctrl-C went to it too, that
        failure = Failure(time.monotonic(), is_consequence(error),
                          traceback.format_exc())
        write(error_file, failure)
        sys.exit(1)
    if os.getpid() == process:  # and not a child that the function has left behind
        returned.mark(index)


def is_consequence(error: BaseException) -> bool:
    """True if the error only tells that another rank has failed."""
    try:
        code = getattr(error, "code", None)
    except Exception:  # noqa: BLE001: of another library's class
        return False
    return isinstance(code, str) and code in _CONSEQUENCES


def write(path: str, value: Any) -> None:
    """Writes the file at once: a reader finds all of it, or no file."""
    partial = path + ".partial"
    with open(partial, "wb") as file:
        pickle.dump(value, file, protocol=pickle.HIGHEST_PROTOCOL)
    os.rename(partial, path)


def read_failure(path: str) -> Failure | None:
    """The failure that the process has written; None if it has written none."""
    if not pathlib.Path(path).exists():
        return None
    with open(path, "rb") as file:
        failure: Failure = pickle.load(file)
    return failure


def pidfd_of(pid: int) -> int | None:
    """A descriptor that becomes readable when the process has ended, until it is closed. None: the kernel is old, or
    the process is gone."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _die_with(parent: int | None) -> None:
    """A parent that is killed leaves no processes behind."""
    if parent is None:
        watched = multiprocessing.parent_process()
        assert watched is not None and watched.pid is not None
        threading.Thread(target=_die_after, args=(_ends_of(watched.pid, watched.sentinel),), name="tutti parent watch",
                         daemon=True).start()
    # Asked after the kernel was told: whenever the parent dies, one of the two notices. Its number would
    # be there longer than itself, until somebody has fetched its exit status.
    elif ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) == 0 and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _ends_of(pid: int, sentinel: int) -> list[int]:
    """Descriptors that become readable when the process has ended. The sentinel is a pipe, which later forks of that
    process keep open; a pidfd has no such copies."""
    end = pidfd_of(pid)
    return [sentinel] if end is None else [sentinel, end]


def _die_after(ends: list[int]) -> None:
    multiprocessing.connection.wait(ends)
    os.kill(os.getpid(), signal.SIGTERM)
