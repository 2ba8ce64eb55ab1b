"""`run`: a function on the ranks of a new world, and their results."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from tutti._times import Timeout, seconds_to_wait
from tutti.multiprocessing import child, launched, rank_stacks, shipping
from tutti.multiprocessing.job import Job, Ticket
from tutti.multiprocessing.spawn import check_callable, checked_args, checked_count


def run(fn: Callable[..., Any], nprocs: int | None = None, args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None, *, init: bool = True, backend: str | None = None,
        timeout: Timeout = None, start_method: str | None = None,
        env: Mapping[str, str] | None = None, grace_period: float | timedelta = 5.0) -> list[Any]:
    """Calls fn(*args, **kwargs) in `nprocs` new processes that are the ranks of a world, and returns
    what they return, in the order of ranks. Works in notebooks too, with functions of their cells.

    The world is there when `fn` is called (`tutti.distributed.get_rank()`, ...) and destroyed after
    it; with `init=False` only the environment is set, and `fn` calls init_process_group itself. The
    processes meet at a store of their own, on a port of their own, and know a secret: jobs do not
    meet each other, and any number may follow each other.

    nprocs: one per CPU that this process may use, if not told.
    timeout: seconds or a timedelta for all of it; ranks that still run then are ended. TimeoutError names them and shows
        the stacks of their Python threads, which they are asked for by SIGUSR1.
    env: variables for the processes, beside those that say who they are.
    start_method: "spawn", "fork" or "forkserver"; if not told, "spawn", or "fork" where only that can
        give `fn` to another process (a notebook's function, and cloudpickle is not installed).
    grace_period: seconds (or a timedelta) that the other ranks have to end by themselves after the first failure.

    On the backend "mpi" (`backend`, or TUTTI_BACKEND) mpirun starts the processes. It ends them at the first failure,
    after a time of its own. Arguments are pickled: they cannot hold queues or locks.

    Raises what `spawn` raises for the first rank that fails; the other ranks are ended before. TypeError or
    ValueError for an invalid argument, before anything is started.
    """
    check_callable(fn, "run")
    args = checked_args(args)
    size = len(os.sched_getaffinity(0)) if nprocs is None else checked_count(nprocs, "nprocs")
    seconds = _seconds(timeout)
    _check_variables(env)
    command = launched.command_of(backend, size, env)
    if command is not None:
        if start_method not in (None, "spawn"):
            raise ValueError(f"run: {command[0][0]} starts the ranks of this backend; start_method {start_method!r} cannot")
        return launched.Launched(command, size, env).run(fn, args, dict(kwargs or {}), init, seconds)
    deadline = None if seconds is None else time.monotonic() + seconds
    with Job(size, start_method or _start_method(fn), env) as job:
        context = job.start(_rank_main, fn, args, dict(kwargs or {}), init, backend, deadline is not None)
        while not context.join(_left(deadline), grace_period):
            if deadline is not None and time.monotonic() >= deadline:
                pids = context.pids()
                raise rank_stacks.too_late(seconds, {rank: (job.ticket.file("stack", rank), pids[rank]) for rank in context.running()})
        return [_result(job, rank) for rank in range(size)]


def _rank_main(rank: int, ticket: Ticket, fn: Callable[..., Any], args: tuple[Any, ...],
               kwargs: dict[str, Any], init: bool, backend: str | None, tells_stack: bool) -> None:
    ticket.enter(rank)
    with rank_stacks.told_to(ticket.file("stack", rank)) if tells_stack else contextlib.nullcontext():
        ticket.put_result(rank, child.call_in_world(fn, args, kwargs, init, backend))


def _result(job: Job, rank: int) -> Any:
    try:
        return job.result(rank)
    except FileNotFoundError:
        assert job.context is not None
        raise RuntimeError(f"run: the process of rank {rank} (number {job.context.pids()[rank]}) ended without a "
                           f"result: its function left by sys.exit(0), or became another program") from None


def _seconds(timeout: Timeout) -> float | None:
    """A time in seconds. Zero is allowed: ranks that have not ended at once are too late."""
    if timeout is None:
        return None
    limit = seconds_to_wait(timeout)
    if limit is not None and limit < 0:
        raise ValueError(f"run: timeout is {timeout!r}; it must not be negative")
    return limit


def _check_variables(env: Mapping[str, str] | None) -> None:
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"run: env has {name!r}: {value!r}; names and values of variables are text")


def _start_method(fn: Callable[..., Any]) -> str:
    return "spawn" if shipping.has_cloudpickle() or shipping.has_name(fn) else "fork"


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
