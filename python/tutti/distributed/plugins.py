"""Groups that a registered backend makes: see Backend.register_backend."""

import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tutti import _tutti
from tutti.distributed.backend import Backend
from tutti.distributed.process_group import ProcessGroup, world
from tutti.distributed.stores import PrefixStore, Store

Plugin = tuple[Callable[..., Any], bool]  # the function, and whether it takes options


class GroupOptions:
    """What a plug-in that was registered with extended_api is told."""

    def __init__(self, store: Any, rank: int, size: int, name: str, ranks: list[int], timeout: timedelta) -> None:
        self.store = store
        self.group_rank = rank
        self.group_size = size
        self.group_id = name
        self.global_ranks_in_group = ranks
        self.timeout = timeout


def of(config: Any) -> Plugin | None:
    """The plug-in that a configuration asks for."""
    for engine in config.device_backend_map.values():
        if engine in Backend._plugins:
            return Backend._plugins[engine]
    return None


def part_of(store: Store | None, name: str) -> Store:
    """Of the world's store, for one group; RuntimeError where the program has none."""
    if store is None:
        raise RuntimeError("new_group: a registered backend makes its group in the world's store, and this world was "
                           "made without one that is kept; give init_process_group that backend too, or a store=")
    return PrefixStore(name, store)


def make(plugin: Plugin, store: Store, rank: int, ranks: list[int], name: str, timeout: timedelta,
         pg_options: Any) -> _tutti.ProcessGroup:
    """The group of `ranks` (of the world), on a member. `rank`: ours in it."""
    function, extended = plugin
    if extended:
        made = function(GroupOptions(store, rank, len(ranks), name, ranks, timeout), pg_options)
    else:
        made = function(store, rank, len(ranks), timeout)
    if not isinstance(made, _tutti.ProcessGroup):
        raise TypeError(f"the function of a registered backend must return a tutti.ProcessGroup, not {type(made)}")
    if (made.rank, made.size) != (rank, len(ranks)):
        raise ValueError(f"the function of a registered backend was asked for rank {rank} of {len(ranks)}, and gave "
                         f"a group in which we are rank {made.rank} of {made.size}")
    return made


def make_sub_group(plugin: Plugin, parent: ProcessGroup, ranks: list[int], name: str, timeout: timedelta,
                   pg_options: Any) -> _tutti.ProcessGroup | None:
    """As new_group wants it: of some ranks of the world; None for who is not among them, who does nothing."""
    # A later world counts its groups anew in the same store; what it finds is of the same ranks then.
    store = part_of(world.store, f"{name}_{zlib.crc32(repr(ranks).encode()):08x}")
    me = parent._ranks[parent._own]
    return make(plugin, store, ranks.index(me), ranks, name, timeout, pg_options) if me in ranks else None
