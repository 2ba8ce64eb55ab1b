"""`spawn` and `start_processes`: a function in several processes, as torch.multiprocessing has them."""

import contextlib
import functools
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from tutti._times import NO_LIMIT, Timeout, seconds, seconds_to_wait
from tutti.multiprocessing import child
from tutti.multiprocessing.errors import ProcessException, ProcessExitedException, ProcessRaisedException, raised
from tutti.multiprocessing.returned import Returned
from tutti.multiprocessing.shipping import Shipped, main_left_out

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
    "SpawnContext", "spawn", "start_processes",
]

# A rank that fails breaks the groups of others, whose errors may reach us before its own.
_FOR_THE_CAUSE = 1.0
# Between asking the others to end and ending them.
_BEFORE_KILL = 30.0


class ProcessContext:
    """Processes that `start_processes` has started. `processes` and `error_files` are in the order
    of their index, `sentinels` says which index runs behind which waitable handle."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str],
                 remove: Callable[[], object] | None = None, returned: Callable[[int], bool] = lambda _: True) -> None:
        self.processes = list(processes)
        self.error_files = list(error_files)
        self.sentinels = {process.sentinel: index for index, process in enumerate(self.processes)}
        self._returned = returned  # tells of an index whether its function has
        # A descriptor for each process that we wait for. A helper that a process has forked may keep its sentinel open.
        self._ends: dict[int, int] = {}
        # Removes the error files, once all is over; at the latest when we go.
        self._remove = weakref.finalize(self, _close_all, self._ends, remove or (lambda: None))
        for index, process in enumerate(self.processes):
            end = child.pidfd_of(process.pid)
            if end is not None:
                self._ends[index] = end

    def pids(self) -> list[int]:
        """Process numbers, in the order of the index."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: Timeout = None, grace_period: Timeout = None) -> bool:
        """Waits, at most `timeout` (seconds or a timedelta), until some of the processes have ended. True when all
        have; False when some still run: call it again.

        The first failure ends the other processes (they have `grace_period` seconds to end by
        themselves, then they get SIGTERM, and SIGKILL after 30 s) and is raised:
        ProcessRaisedException if an exception left the function, else ProcessExitedException.
        """
        limit = seconds_to_wait(timeout)
        grace = None if grace_period is None else seconds(grace_period)
        if not self.sentinels:
            return True
        failed = self._ended(limit)
        if not failed:
            if not self.sentinels:
                self._remove()
            return not self.sentinels
        until = time.monotonic() + _FOR_THE_CAUSE
        while self._cause(failed) is None and self.sentinels and time.monotonic() < until:
            failed += self._ended(until - time.monotonic())
        cause = self._cause(failed)
        error = self._error(failed[0] if cause is None else cause)
        self.end(grace)
        raise error

    def end(self, grace_period: float | None = None) -> None:
        """Ends the processes that still run, and returns when they have ended."""
        if grace_period is not None:
            self._wait_all(grace_period)
        for process in self._running():
            process.terminate()
            _signal(process.pid, signal.SIGCONT)  # a stopped process would not see it
        self._wait_all(_BEFORE_KILL)
        for process in self._running():
            process.kill()
        for process in self.processes:
            process.join()
        self.sentinels.clear()
        self._remove()

    def running(self) -> list[int]:
        """The indices of the processes that still run."""
        return [index for index, process in enumerate(self.processes) if process.is_alive()]

    def _running(self) -> list[Any]:
        return [process for process in self.processes if process.is_alive()]

    def _wait_all(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for handle in self._handles():
            multiprocessing.connection.wait([handle], None if until == NO_LIMIT else max(0.0, until - time.monotonic()))

    def _handles(self) -> dict[Any, int]:
        """For each process that has not ended as far as we know: its index by what becomes readable at its end."""
        return {self._ends.get(index, sentinel): index for sentinel, index in self.sentinels.items()}

    def _ended(self, timeout: float | None) -> list[int]:
        """Waits for some to end; those of them that failed, the one to blame first."""
        handles = self._handles()
        indices = [handles[ready] for ready in multiprocessing.connection.wait(list(handles), timeout)]
        for index in indices:
            self.processes[index].join()
            del self.sentinels[self.processes[index].sentinel]
        return sorted((index for index in indices if self._failed(index)), key=self._time_of_failure)

    def _failed(self, index: int) -> bool:
        # The exit code is unknown where SIGCHLD is ignored.
        return self.processes[index].exitcode not in (0, None) or not self._returned(index)

    def _time_of_failure(self, index: int) -> float:
        # A process that wrote nothing was killed or has exited; others fail because of that.
        failure = child.read_failure(self.error_files[index])
        return 0.0 if failure is None else failure.when

    def _cause(self, failed: list[int]) -> int | None:
        """The first failure that does not only tell of another's."""
        for index in failed:
            failure = child.read_failure(self.error_files[index])
            if failure is None or not failure.is_consequence:
                return index
        return None

    def _error(self, index: int) -> ProcessException:
        process = self.processes[index]
        failure = child.read_failure(self.error_files[index])
        if failure is not None:
            return raised(index, failure.trace, process.pid)
        code = process.exitcode
        if code in (0, None):
            text = "exit code 0" if code == 0 else "an unknown exit code (SIGCHLD is ignored)"
            return ProcessExitedException(f"process {index} terminated with {text} before its function had returned",
                                          index, process.pid, code or 0)
        if code < 0:
            name = _name_of_signal(-code)
            return ProcessExitedException(f"process {index} terminated with signal {name}", index,
                                          process.pid, code, name)
        return ProcessExitedException(f"process {index} terminated with exit code {code}", index,
                                      process.pid, code)


class SpawnContext(ProcessContext):
    """The old name of ProcessContext."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext", FutureWarning, stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(fn: Callable[..., object], args: tuple[Any, ...] = (), nprocs: int = 1,
                    join: bool = True, daemon: bool = False,
                    start_method: str = "spawn") -> ProcessContext | None:
    """Calls fn(i, *args) in `nprocs` new processes, i from 0.

    With `join` it returns None when all have ended well, and raises the first failure as
    `ProcessContext.join` does; without, it returns the ProcessContext at once. `start_method` is
    "spawn", "fork" or "forkserver"; with "fork" this process must have no world.

    A process has ended well if its function has returned or has called sys.exit(0), and its exit code is 0. A program
    that it becomes by os.exec ends in its place. All other ends are failures, also os._exit(0) and KeyboardInterrupt.
    """
    check_callable(fn, "start_processes")
    args = checked_args(args)
    nprocs = checked_count(nprocs, "nprocs")
    if start_method == "fork":
        _check_fork()
    start: Any = multiprocessing.get_context(start_method)
    returned = Returned(nprocs)
    folder = tempfile.mkdtemp(prefix="tutti-spawn-")
    remove = functools.partial(_remove, folder, returned)
    error_files = [os.path.join(folder, f"error.{index}") for index in range(nprocs)]
    call = Shipped((fn, args))
    # The kernel's word on a parent's death is about the thread that has started the process.
    is_main = threading.current_thread() is threading.main_thread()
    parent = os.getpid() if is_main and start_method != "forkserver" else None
    processes: list[Any] = []
    try:
        for index, error_file in enumerate(error_files):
            process = start.Process(target=child.main, args=(index, parent, call, error_file, returned),
                                    daemon=daemon)
            with contextlib.nullcontext() if start_method == "fork" else main_left_out():
                process.start()
            processes.append(process)
        context = ProcessContext(processes, error_files, remove, returned)
        if not join:
            return context
        while not context.join():
            pass
    except ProcessException:
        raise  # the others have ended
    except BaseException:  # Ctrl-C, or a process that could not be started
        ProcessContext(processes, error_files, remove).end()
        raise
    return None


def spawn(fn: Callable[..., object], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
          daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:
    """`start_processes` with the start method "spawn": fresh Python processes, which import the main
    module anew (so what it does stands below `if __name__ == "__main__":`)."""
    if start_method != "spawn":
        warnings.warn(f"This method only supports start_method=spawn (got: {start_method}).\n"
                      "To use a different start_method use:\n\t\t"
                      " tutti.multiprocessing.start_processes(...)", FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


def check_callable(fn: Any, who: str) -> None:
    """TypeError here, and not on every rank."""
    if not callable(fn):
        raise TypeError(f"{who}: fn must be a function that the processes call, not {fn!r}")


def checked_args(args: Any) -> tuple[Any, ...]:
    """The arguments of the function; TypeError if they are no tuple or list."""
    if isinstance(args, (str, bytes)) or not hasattr(args, "__iter__"):
        raise TypeError(f"args is {args!r}; it is the tuple of fn's arguments: args=({args!r},)")
    return tuple(args)


def checked_count(count: Any, name: str) -> int:
    """The number of processes or threads to start. TypeError: it is no whole number; ValueError: it is below one."""
    if isinstance(count, bool) or not hasattr(count, "__index__"):
        raise TypeError(f"{name} is {count!r}; it is a whole number")
    number: int = count.__index__()
    if number < 1:
        raise ValueError(f"{name} is {number}; at least one must be started")
    return number


def _remove(folder: str, returned: Returned) -> None:
    returned.close()
    shutil.rmtree(folder, ignore_errors=True)


def _close_all(descriptors: dict[int, int], remove: Callable[[], object]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)
    descriptors.clear()
    remove()


def _check_fork() -> None:
    from tutti import _tutti  # noqa: PLC0415: processes without worlds need no library

    if _tutti.is_initialized():
        raise RuntimeError("start_method='fork': this process has a process group, and a fork cannot use its "
                           "parent's; destroy it before (destroy_process_group), or take start_method='spawn'")


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"<Unknown signal {number}>"


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
