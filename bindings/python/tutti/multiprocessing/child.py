"""The process's side of `spawn`."""

import ctypes
import io
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
from collections.abc import Callable
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
    print_whole_lines()
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


def print_whole_lines() -> None:
    """From now on each line leaves the process in one piece: beside other processes that print to the same place, the lines of
    none are torn apart. (Of a pipe: up to 4096 bytes.)"""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True, write_through=False)


def call_in_world(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], init: bool,
                  backend: str | None = None) -> Any:
    """The function's result; with `init` a world is there while it runs."""
    if not init:
        return fn(*args, **kwargs)
    # Only a run that makes a world needs it; of the package's own face it needs nothing.
    from tutti.distributed.init import destroy_process_group, init_process_group, is_initialized  # noqa: PLC0415

    init_process_group(backend)
    value = fn(*args, **kwargs)
    if is_initialized():
        destroy_process_group()
    return value


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
        die_after(_ends_of(watched.pid, watched.sentinel))
    # Asked after the kernel was told: whenever the parent dies, one of the two notices. Its number would
    # be there longer than itself, until somebody has fetched its exit status.
    elif ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM) == 0 and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


def _ends_of(pid: int, sentinel: int) -> list[int]:
    """Descriptors that become readable when the process has ended. The sentinel is a pipe, which later forks of that
    process keep open; a pidfd has no such copies."""
    end = pidfd_of(pid)
    return [sentinel] if end is None else [sentinel, end]


def die_after(ends: list[int]) -> None:
    """Ends this process when one of these becomes readable."""
    def watch() -> None:
        multiprocessing.connection.wait(ends)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="tutti parent watch", daemon=True).start()
