"""The two things of torch that the Python fallback can be: a group, or, from torch 2.14 on, a backend of one."""

from datetime import timedelta
from typing import Any, ClassVar

import torch.distributed as dist
from torch._C._distributed_c10d import Backend, ErrorType

import tutti

from ._python_work import PythonWork, torchs_errors


class GroupBase(dist.ProcessGroup):  # type: ignore[misc]
    """A group that has no backends: its operations are its own."""

    def _started(self, work: PythonWork, collective: bool) -> PythonWork:
        return work

    def _let_go(self) -> None:
        pass


class BackendBase(Backend):  # type: ignore[misc, unused-ignore]  # Any without torch
    """A backend. torch's groups and its DETAIL wrapper hold it as they hold a compiled one. Of its works torch hands on
    `wait` and `get_future` only; they never say that they are completed."""

    _group: tutti.ProcessGroup
    _batch: PythonWork | None = None  # between start_coalescing and end_coalescing
    _sequence = 0
    _kept: ClassVar[set["BackendBase"]] = set()

    def keep(self) -> None:
        """Until shutdown: torch's DETAIL wrapper keeps the part in C++ only, which cannot do without this."""
        self._kept.add(self)

    def _let_go(self) -> None:
        self._kept.discard(self)

    def _started(self, work: PythonWork, collective: bool) -> PythonWork:
        self._sequence += collective
        if self._batch is None:
            return work
        self._batch.add(work)
        return self._batch

    @property
    def supports_coalescing(self) -> bool:
        """Until `end_coalescing` operations start as ever, and torch sees them as one."""
        return True

    def start_coalescing(self) -> None:
        """Torch's coalescing manager calls it first."""
        if self._batch is not None:
            raise ValueError("tutti: operations of this group are coalesced already")
        self._batch = PythonWork([], [])

    def end_coalescing(self) -> PythonWork:
        """The operations that were started since, as one Work."""
        if self._batch is None:
            raise ValueError("tutti: no operations of this group are coalesced")
        whole, self._batch = self._batch, None
        return whole

    @property
    def options(self) -> Any:
        """Torch reads the timeout here."""
        return Backend.Options("tutti", self._group.timeout)

    def set_timeout(self, timeout: timedelta) -> None:
        """The timeout of operations that start from now on."""
        with torchs_errors():
            self._group.set_timeout(timeout)

    def monitored_barrier(self, opts: Any, wait_all_ranks: bool = False) -> None:
        """A barrier that names the ranks that have not come. It leaves the group broken then."""
        timeout = max(opts.timeout, timedelta(milliseconds=1))  # torch's 0 means no time at all here
        with torchs_errors():
            self._group.monitored_barrier(timeout=timeout, wait_all_ranks=wait_all_ranks)

    def get_error(self) -> Any:
        """The kind of error that broke the group, in torch's words."""
        problem = self._group.health()
        if problem is None:
            return ErrorType.SUCCESS
        if isinstance(problem, tutti.TimeoutError):
            return ErrorType.TIMEOUT
        return ErrorType.REMOTE_ERROR if isinstance(problem, tutti.NetworkError) else ErrorType.COMM_ERROR

    def _get_sequence_number_for_group(self) -> int:
        return self._sequence

    def _set_sequence_number_for_group(self) -> None:
        pass  # each rank counts from 0


def derives_from_backend() -> bool:
    """Does torch let Python derive from Backend?"""
    try:
        Backend(0, 1)
    except TypeError:
        return False
    return True
