"""The handle of an operation that was started."""

import enum
import functools
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

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

    def __init__(self, low: _tutti.Work | None = None) -> None:
        self._low: _tutti.Work = low  # type: ignore[assignment]  # None in Works, which ask it nothing
        self._after: list[Any] | None = None  # what get_future gives, where it is not the tensors that were written

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

    def result(self) -> list[Any]:
        """The tensors that were written, once it is done."""
        self.wait()
        return self._value()

    def source_rank(self) -> int:
        """Of a recv that is done: the rank in the group that sent."""
        rank = self._low.source_rank
        if rank < 0:
            raise RuntimeError("sourceRank() may only be called on work objects that correspond to a recv or "
                               "recv-from-any call.")
        return rank

    _source_rank = source_rank

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
        yield from Future._of_work(self).__await__()
        return self._value()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for tensor in await self:
            yield tensor

    def __repr__(self) -> str:
        if not self.is_completed():
            return "<tutti.distributed.Work: under way>"
        problem = self.exception()
        return f"<tutti.distributed.Work: {'done' if problem is None else f'failed: {problem}'}>"


class Works(Work):
    """Several operations that count as one: done when all are."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[Work], value: Any = None) -> None:
        super().__init__()
        self._parts = list(parts)
        self._after = value

    def wait(self, timeout: Timeout = None) -> bool:
        limit = None if timeout is None else seconds_of(timeout)
        wait_all(self._parts, limit)
        return True

    def is_completed(self) -> bool:
        return all(part.is_completed() for part in self._parts)

    def is_success(self) -> bool:
        return all(part.is_success() for part in self._parts)

    def exception(self) -> BaseException | None:
        for part in self._parts:
            problem = part.exception()
            if problem is not None:
                return problem
        return None

    def source_rank(self) -> int:
        if len(self._parts) != 1:
            raise RuntimeError("several operations have no one source; ask each of them")
        return self._parts[0].source_rank()

    _source_rank = source_rank

    def _value(self) -> list[Any]:
        if self._after is not None:
            return self._after
        return [tensor for part in self._parts for tensor in part._value()]

    def _when_done(self, callback: Callable[[], Any]) -> None:
        if not self._parts:
            callback()
            return
        lock, missing = threading.Lock(), [len(self._parts)]

        def one_less() -> None:
            with lock:
                missing[0] -= 1
                last = missing[0] == 0
            if last:
                callback()

        for part in self._parts:
            part._when_done(one_less)

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for part in as_completed(self._parts):
            for tensor in part._value():
                yield tensor


class FollowedWork(Works):
    """Works after which something is done once: copying results to where they belong."""

    __slots__ = ("_then", "_then_lock", "_then_error")

    def __init__(self, parts: Sequence[Work], then: Callable[[], Any], value: Any = None) -> None:
        super().__init__(parts, value)
        self._then: Callable[[], Any] | None = then
        self._then_lock = threading.Lock()
        self._then_error: BaseException | None = None
        super()._when_done(self._follow)

    def _follow(self) -> None:
        with self._then_lock:
            if self._then is None or Works.exception(self) is not None:
                return
            try:
                self._then()
            except Exception as problem:
                self._then_error = problem
            self._then = None

    def wait(self, timeout: Timeout = None) -> bool:
        super().wait(timeout)
        self._follow()
        if self._then_error is not None:
            raise self._then_error
        return True

    def is_completed(self) -> bool:
        return super().is_completed() and (self._then is None or Works.exception(self) is not None)

    def exception(self) -> BaseException | None:
        return super().exception() or self._then_error

    def _when_done(self, callback: Callable[[], Any]) -> None:
        def after() -> None:
            self._follow()
            callback()

        super()._when_done(after)


def wait_all(works: Iterable[Any], limit: float | None = None) -> None:
    """Wait for all of them; raise the first error after the last one is done."""
    import time
    end = None if limit is None else time.monotonic() + limit
    first: BaseException | None = None
    for work in works:
        try:
            work.wait(None if end is None else max(end - time.monotonic(), 1e-9))
        except Exception as problem:
            first = first or problem
    if first is not None:
        raise first


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
