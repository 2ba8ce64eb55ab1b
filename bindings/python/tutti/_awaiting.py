"""`await work`: asyncio hears of the end of an operation without a thread that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable
from typing import Any

from tutti._tutti import Work


def result_of(work: Work) -> Generator[Any, None, list[Any]]:
    """The awaitable of `Work.__await__`: gives the arrays that were written, or raises the exception."""
    if not work.is_completed():
        yield from _end_of(work, asyncio.get_running_loop()).__await__()
    work.wait()
    return work.result


def _end_of(work: Work, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
    ended: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not ended.done():  # the task that awaited it may have been cancelled
            ended.set_result(None)

    def tell(_: Work) -> None:
        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:  # the loop was closed; nobody awaits any more
            pass

    work.add_done_callback(tell)
    return ended


async def as_completed(works: Iterable[Work]) -> AsyncIterator[Work]:
    """`async for work in tutti.as_completed(works)`: each when it is done, well or badly."""
    loop = asyncio.get_running_loop()
    done: asyncio.Queue[Work] = asyncio.Queue()

    def tell(work: Work) -> None:
        try:
            loop.call_soon_threadsafe(done.put_nowait, work)
        except RuntimeError:  # as above
            pass

    left = 0
    for work in works:
        work.add_done_callback(tell)
        left += 1
    for _ in range(left):
        yield await done.get()
