"""Tasks that only one of all ranks should do (print, show progress, write files), and logs that name the rank.

    from tutti import rank0

    rank0.print("starting")                         # one line, not one for each rank
    for batch in rank0.progress(batches):           # one bar (tqdm), the plain loop elsewhere
        ...
    with rank0.first():                             # rank 0 downloads, then the others find it
        data = load()
    handler.addFilter(rank0.RankFilter())           # %(rank)s in the format of `logging`

The rank is that of the world, if there is one, else the one in RANK, else 0.
"""

import builtins
import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ParamSpec, TypeVar

from tutti._numbers import variable

P = ParamSpec("P")
T = TypeVar("T")


def _world() -> Any:
    """tutti.distributed, if this process has a world."""
    dist = sys.modules.get("tutti.distributed")
    return dist if dist is not None and dist.is_initialized() else None


def _default_group() -> Any:
    """The world, if this process has one or was forked from a process that has."""
    module = sys.modules.get("tutti.distributed.process_group")
    return None if module is None else module.told_default()


def rank() -> int:
    """The rank of this process."""
    group = _default_group()
    return int(group.rank()) if group is not None else variable("RANK", 0)


def world_size() -> int:
    """How many ranks there are."""
    group = _default_group()
    return int(group.size()) if group is not None else variable("WORLD_SIZE", 1)


def is_rank0() -> bool:
    """True on rank 0 of the world, or of the launcher's variables; true without both."""
    return rank() == 0


def only(fn: Callable[P, T]) -> Callable[P, T | None]:
    """The function, on rank 0; elsewhere nothing, and None."""

    @functools.wraps(fn)
    def on_rank0(*args: P.args, **kwargs: P.kwargs) -> T | None:
        return fn(*args, **kwargs) if is_rank0() else None

    return on_rank0


def print(*values: object, **options: Any) -> None:  # noqa: A001: rank0.print reads as it works
    """`print`, on rank 0."""
    if is_rank0():
        builtins.print(*values, **options)


@contextlib.contextmanager
def first(group: Any = None) -> Iterator[bool]:
    """Rank 0 (of the group) goes through the block, then all others. Each is told whether it is rank 0.
    All ranks must come; if rank 0's block raises, the others go on to theirs, since they are waited for."""
    world = _world()
    ours = is_rank0() if world is None else world.get_rank(group) == 0
    if world is not None and not ours:
        world.barrier(group)
    try:
        yield ours
    finally:
        if world is not None and ours:
            world.barrier(group)


def progress(iterable: Iterable[T] | None = None, **options: Any) -> Any:
    """`tqdm` with these options, shown on rank 0 only. Without tqdm installed the iterable itself."""
    try:
        from tqdm.auto import tqdm  # noqa: PLC0415: needed for bars only
    except ImportError:
        if iterable is None:
            raise ImportError("progress without an iterable needs tqdm: pip install tqdm") from None
        return iterable
    options.setdefault("disable", not is_rank0())
    return tqdm(iterable, **options)


class RankFilter(logging.Filter):
    """Gives each record `rank` and `world_size`, for formats such as "[%(rank)s/%(world_size)s] %(message)s".
    With `only_rank0` records of other ranks are dropped, unless they are errors."""

    def __init__(self, only_rank0: bool = False) -> None:
        super().__init__()
        self._only_rank0 = only_rank0

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record is let through. Adds the fields rank and world_size to it."""
        own = rank()
        record.__dict__.update(rank=own, world_size=world_size())
        return not self._only_rank0 or own == 0 or record.levelno >= logging.ERROR


def logger(name: str | None = None) -> logging.Logger:
    """The logger of that name, made quiet on other ranks than 0 (errors are let through)."""
    found = logging.getLogger(name)
    if not any(isinstance(one, RankFilter) for one in found.filters):
        found.addFilter(RankFilter(only_rank0=True))
    return found
