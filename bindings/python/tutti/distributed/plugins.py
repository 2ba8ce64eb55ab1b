"""Groups that a registered backend makes: see Backend.register_backend."""

import zlib
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from tutti import _tutti
from tutti.distributed.stores import PrefixStore, Store

Plugin = tuple[Callable[..., Any], bool]  # the function, and whether it takes options


class GroupOptions:
    """The group that a plug-in shall make, as one that was registered with extended_api is told of it."""

    def __init__(self, store: Any, rank: int, size: int, name: str, ranks: list[int], timeout: timedelta) -> None:
        self.store = store
        self.group_rank = rank
        self.group_size = size
        self.group_id = name
        self.global_ranks_in_group = ranks
        self.timeout = timeout


class Wanted:
    """The arguments that torch.distributed adds when a group is made: its id, its ranks in the world (None: all of
    them), and pg_options."""

    def __init__(self, name: str, ranks: list[int] | None, pg_options: Any) -> None:
        self.name = name
        self.ranks = ranks
        self.pg_options = pg_options


def make(plugins: Mapping[str, Plugin], engine: str, store: Store | None, rank: int, size: int, name: str,
         timeout: timedelta, wanted: Wanted | None) -> Any:
    """The result of the function that was registered for `engine`. tutti calls it for each world on that engine."""
    function, extended = plugins[engine]
    if store is None:
        raise RuntimeError(f"backend {engine!r} needs a store, and these ranks have met without one")
    part = PrefixStore(engine, store)
    if not extended:
        return function(part, rank, size, timeout)
    wanted = wanted or Wanted(name, None, None)
    ranks = list(range(size)) if wanted.ranks is None else wanted.ranks
    return function(GroupOptions(part, rank, size, wanted.name, ranks, timeout), wanted.pg_options)


def make_sub_group(engine: str, store: Store, ranks: list[int], rank: int, name: str, shown: str, timeout: timedelta,
                   pg_options: Any) -> _tutti.ProcessGroup | None:
    """As new_group wants it: of some ranks of the world, whose store is given; None on a rank that is not
    among them (our own is `rank`), which does nothing."""
    if rank not in ranks:
        return None
    part = PrefixStore(f"{name}_{zlib.crc32(repr(ranks).encode()):08x}", store)
    return _tutti.init_process_group(store=part, rank=ranks.index(rank), world_size=len(ranks), timeout=timeout,
                                     name=shown, backend=engine, backend_options=Wanted(name, ranks, pg_options))
