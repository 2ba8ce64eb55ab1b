"""The errors that `spawn` raises when a process has failed. Names and fields are torch.multiprocessing's."""

from typing import Any


class ProcessException(Exception):
    """A process failed: `error_index` says which, `error_pid` (also `pid`) its process number, `msg`
    the text for people."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid
        self.pid = error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """An exception left the function. `msg` holds the traceback of the process."""


def raised(index: int, trace: str, pid: int) -> ProcessRaisedException:
    """The error of a process that has left this traceback."""
    return ProcessRaisedException(f"\n\n-- Process {index} terminated with the following error:\n{trace}", index, pid)


class ProcessExitedException(ProcessException):
    """The process ended with `exit_code`: its own, or minus the number of the signal `signal_name`."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int,
                 signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code,
                            self.signal_name)
