"""`await work`: asyncio hears of the end of an operation without a thread that waits for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import Any

from tutti._tutti import Work


def until_told(add_done_callback: Callable[[Callable[[Any], None]], Any]) -> Generator[Any, None, None]:
    """Awaits the call of a callback."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ended.done():  # the task that awaited it may have been cancelled
            ended.set_result(None)

    def tell(_: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed; nobody awaits any more
            loop.call_soon_threadsafe(settle)

    add_done_callback(tell)
    yield from ended.__await__()


def result_of(work: Work) -> Generator[Any, None, list[Any]]:
    """The awaitable of `Work.__await__`: gives the arrays that were written, or raises the exception."""
    if not work.is_completed():
        yield from until_told(work.add_done_callback)
    work.wait()
    return work.result


async def as_completed(works: Iterable[Work]) -> AsyncIterator[Work]:
    """`async for work in tutti.as_completed(works)`: each when it is done, well or badly."""
    loop = asyncio.get_running_loop()
    done: asyncio.Queue[Work] = asyncio.Queue()

    def tell(work: Work) -> None:
        with contextlib.suppress(RuntimeError):  # as above
            loop.call_soon_threadsafe(done.put_nowait, work)

    left = 0
    for work in works:
        work.add_done_callback(tell)
        left += 1
    for _ in range(left):
        yield await done.get()
