"""A barrier that names who has not come."""

import functools
import time
from datetime import timedelta
from typing import Any

from tutti.distributed.constants import check_timedelta
from tutti.distributed.exchange import BARRIER_TAG
from tutti.distributed.process_group import ProcessGroup, member_group
from tutti.errors import Error, TimeoutError

# Seconds, of the messages: one that runs out breaks the group, and how late a rank comes is not for them to judge.
_ENDLESS = 10.0 * 365 * 86400
_TEXT = 512  # bytes of an answer: who was missing


class BarrierError(TimeoutError):
    """Not all ranks have reached a monitored barrier in time. The group stays usable for those that have,
    as far as they agree what comes next."""

    code = "timeout"


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """A barrier that fails on every rank that came, naming on rank 0 who has not come within `timeout`
    (the group's unless given): the first one, or all with `wait_all_ranks`."""
    if timeout is not None:
        check_timedelta(timeout)
    pg = member_group(group, "monitored_barrier")
    if pg is None:
        return
    limit = (timeout or pg._low.timeout).total_seconds()
    # Numbered, so that a late word counts for its own call.
    tag = BARRIER_TAG + pg._barriers % 0x100000
    pg._barriers += 1
    if pg._own == 0:
        _collect(pg, tag, limit, wait_all_ranks)
    else:
        _report(pg, tag, limit)


def _collect(pg: ProcessGroup, tag: int, limit: float, wait_all_ranks: bool) -> None:
    low, end = pg._low, time.monotonic() + limit
    words = {rank: low.irecv(bytearray(1), rank, tag=tag, timeout=_ENDLESS) for rank in range(1, len(pg._ranks))}
    missing: list[int] = []
    reason: BaseException | None = None
    for rank, word in words.items():
        try:
            word.wait(max(end - time.monotonic(), 1e-6))
        except Error as problem:
            missing.append(rank)
            reason = problem if word.exception() is not None else reason
            if not wait_all_ranks:
                break
    came = [rank for rank, word in words.items() if rank not in missing and word.is_completed()]
    answer = ", ".join(str(pg._ranks[rank]) for rank in missing).encode()[:_TEXT].ljust(_TEXT, b"\0")
    for rank, word in words.items():
        if rank not in came:
            word.add_done_callback(functools.partial(_answer_late, low, answer, rank, tag))
    for work in [low.isend(answer, rank, tag=tag, timeout=_ENDLESS) for rank in came]:
        try:
            work.wait()
        except Error as problem:
            reason = reason or problem
    if missing:
        names = ", ".join(str(pg._ranks[rank]) for rank in missing)
        text = (f"[Rank {pg._ranks[0]}]: Rank{'s' if len(missing) > 1 else ''} {names} failed to pass monitoredBarrier "
                f"in {round(limit * 1000)} ms")
        raise BarrierError(text) from reason


def _answer_late(low: Any, answer: bytes, rank: int, tag: int, word: Any) -> None:
    """Who comes when rank 0 has given up is told so, too."""
    if word.exception() is not None:  # the group is broken, or gone
        return
    try:
        low.isend(answer, rank, tag=tag, timeout=_ENDLESS)
    except Error:  # it broke meanwhile; everybody hears of that by itself
        pass


def _report(pg: ProcessGroup, tag: int, limit: float) -> None:
    low = pg._low
    answer = bytearray(_TEXT)
    came = f"Rank {pg._ranks[pg._own]} successfully reached monitoredBarrier, but "
    try:
        low.isend(b"\1", 0, tag=tag, timeout=_ENDLESS)
        # Rank 0 gives up after its own limit, and tells us then.
        low.irecv(answer, 0, tag=tag, timeout=_ENDLESS).wait(2 * limit + 1)
    except Error as problem:
        raise BarrierError(f"{came}received errors while waiting for send/recv from rank 0. Please check rank 0 logs "
                           f"for faulty rank. ({problem})") from problem
    names = bytes(answer).rstrip(b"\0").decode(errors="replace")
    if names:
        raise BarrierError(f"{came}received errors while waiting for send/recv from rank 0. Please check rank 0 logs "
                           f"for faulty rank. (rank 0 says: {names} did not come)")
