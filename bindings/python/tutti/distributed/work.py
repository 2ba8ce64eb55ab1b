"""The handle of an operation that was started."""

import enum
import functools
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NoReturn

from tutti import _tutti
from tutti._times import Timeout
from tutti.distributed.constants import seconds_of
from tutti.distributed.futures import Future
from tutti.errors import TimeoutError


class WorkResult(enum.Enum):
    """How an operation ended."""

    SUCCESS = 0
    TIMEOUT = 1
    COMM_ERROR = 2
    UNKNOWN = 100


class Work:
    """An operation under way. Its tensors must not be touched until it is done.

    Dropping it cancels nothing; its tensors are kept until then. `await work` gives the tensors that it
    has written, `async for tensor in work` one after the other.
    """

    __slots__ = ("_low", "_after", "__weakref__")

    def __init__(self, low: _tutti.Work, after: list[Any] | None = None) -> None:
        self._low = low
        self._after = after  # what get_future gives, where it is not the tensors that were written

    def wait(self, timeout: Timeout = None) -> bool:
        """True when done, or raise what went wrong. `timeout`: a timedelta or seconds; zero and None mean
        the operation's own. One that is over raises TimeoutError and cancels nothing."""
        return self._low.wait(None if timeout is None else seconds_of(timeout))

    def is_completed(self) -> bool:
        """Done, well or badly? Never blocks."""
        return self._low.is_completed()

    def is_success(self) -> bool:
        """Done, and well? Never blocks."""
        return self._low.is_success()

    def exception(self) -> BaseException | None:
        """The error, or None. Never blocks."""
        return self._low.exception()

    def synchronize(self) -> None:
        """Wait: there is no stream that could do it instead."""
        self.wait()

    block_current_stream = synchronize

    def result(self) -> list[Any]:
        """The tensors that were written, once it is done."""
        self.wait()
        return self._value()

    def source_rank(self) -> int:
        """Of a recv that is done: the rank in the group that sent."""
        rank = self._low.source_rank
        if rank < 0 and rank != _tutti.NO_RANK:
            raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or "
                               "recv-from-any call.")
        return rank

    _source_rank = source_rank

    def tag(self) -> int:
        """Of a recv that is done: the tag of its message. Else -1."""
        return self._low.tag

    def cancel(self) -> bool:
        """Cancel an irecv that no message has matched: True; then its tensor may be used, and `wait` raises
        InvalidArgument. False: a message has matched, or it is no irecv that runs."""
        return self._low.cancel()

    def get_future(self) -> Future:
        """A future of the tensors that it writes; where torch is imported one of torch's, too."""
        if "torch.futures" in sys.modules:
            from tutti.distributed.torch_futures import TorchFuture  # noqa: PLC0415: imports torch

            return TorchFuture(self)
        return Future._of_work(self)

    def get_future_result(self) -> Future:
        """A future of how it ended, which never fails."""

        def ended(done: Future) -> WorkResult:
            problem = done.exception()
            if problem is None:
                return WorkResult.SUCCESS
            return WorkResult.TIMEOUT if isinstance(problem, TimeoutError) else WorkResult.COMM_ERROR

        return Future._of_work(self).then(ended)

    def _value(self) -> list[Any]:
        if self._after is not None:
            return self._after
        return self._low.result

    def _when_done(self, callback: Callable[[], Any]) -> None:
        self._low.add_done_callback(lambda _: callback())

    def __await__(self) -> Generator[Any, None, list[Any]]:
        from tutti._awaiting import result_of  # noqa: PLC0415: imports asyncio
        yield from result_of(self._low)
        return self._value()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for tensor in await self:
            yield tensor

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Work cannot be pickled: its operation runs in this process; wait for it, and send its tensors")

    def __repr__(self) -> str:
        if not self.is_completed():
            return "<tutti.distributed.Work: under way>"
        problem = self.exception()
        return f"<tutti.distributed.Work: {'done' if problem is None else f'failed: {problem}'}>"


def wait_all(works: Iterable[Any], limit: float | None = None) -> None:
    """Wait for all of them; raise the first error after the last one is done."""
    end = None if limit is None else time.monotonic() + limit
    first: BaseException | None = None
    for work in works:
        try:
            work.wait(None if end is None else max(end - time.monotonic(), 1e-9))
        except Exception as problem:
            first = first or problem
    if first is not None:
        raise first


def wait_some(works: Sequence[Work], timeout: Timeout = None) -> list[int]:
    """The places of the works that are done, once there is one. They were waited for, so a later call skips them. An
    empty list: none is left, or `timeout` has passed. If some have failed, raises the first error."""
    lows = [work._low for work in works]
    places = _tutti.first_done(lows, timeout)
    for place in places:
        problem = lows[place].exception()
        if problem is not None:
            raise problem
    for place in places:
        lows[place].wait()
    return places


def wait_any(works: Sequence[Work], timeout: Timeout = None) -> int | None:
    """The place of the first work that is done, which was waited for: `while (i := wait_any(works)) is not None`. None:
    none is left, or `timeout` has passed. Raises the error of that work."""
    lows = [work._low for work in works]
    places = _tutti.first_done(lows, timeout)
    if not places:
        return None
    lows[places[0]].wait()
    return places[0]


class _AsCompleted:
    """Works in the order in which they end; `for` and `async for`."""

    def __init__(self, works: list[Work]) -> None:
        self._works = works

    def _queue(self, put: Callable[[Work], Any]) -> None:
        for work in self._works:
            work._when_done(functools.partial(put, work))

    def __iter__(self) -> Iterator[Work]:
        import queue
        ended: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._queue(ended.put)
        for _ in self._works:
            yield ended.get()

    async def __aiter__(self) -> AsyncIterator[Work]:
        import asyncio
        loop = asyncio.get_running_loop()
        ended: asyncio.Queue[Work] = asyncio.Queue()
        self._queue(lambda work: loop.call_soon_threadsafe(ended.put_nowait, work))
        for _ in self._works:
            yield await ended.get()


def as_completed(works: Iterable[Work]) -> _AsCompleted:
    """The works in the order in which they end: `for work in as_completed(works)`, or `async for`."""
    listed = list(works)
    for work in listed:
        if not isinstance(work, Work):
            raise TypeError(f"as_completed: {work!r} is no Work of tutti.distributed")
    return _AsCompleted(listed)
