"""Making groups of some of the ranks."""

import gc
from collections.abc import Sequence
from typing import Any

from tutti import _tutti
from tutti._times import Timeout
from tutti.distributed import exchange, plugins
from tutti.distributed.backend import Backend, engine_of
from tutti.distributed.constants import timeout_or_default
from tutti.distributed.held_groups import MOST
from tutti.distributed.process_group import NON_GROUP_MEMBER, AnyGroup, ProcessGroup, default_group, member_group
from tutti.distributed.queries import get_world_size
from tutti.distributed.ranks import listed_parts, whole_ranks
from tutti.distributed.world import world
from tutti.errors import BackendError


_OURS = ("auto", "native")


def _engine(backend: str | None, parent: ProcessGroup) -> tuple[str, Any]:
    """The engine of a new group. Of those that are not registered by programs it is that of its parent."""
    if backend is None:
        return parent._backend, parent._config
    wanted = engine_of(backend)
    engine = wanted[1].engine()
    if engine in _OURS and parent._low.backend in _OURS:  # where tensors on GPUs go, each group agrees as its world does
        return wanted
    if engine != parent._low.backend and engine not in Backend._plugins and parent._low.backend not in Backend._plugins:
        raise RuntimeError(f"a group on {backend!r} of a group on {parent._low.backend!r}: both must be on the same; "
                           f"leave `backend` out")
    return wanted


def register(low: Any, ranks: list[int], engine: tuple[str, Any], name: str, desc: str | None,
             key: str | None = None) -> Any:
    """The group that `low` is, known to this module; NON_GROUP_MEMBER for None. A name that is taken gets a number."""
    if low is None:
        return NON_GROUP_MEMBER
    with world.lock:
        return world.add(ProcessGroup(low, ranks, engine[0], engine[1], world.free_name(name), desc or "undefined", key))


def _made(parent: ProcessGroup, key: str | None, how: tuple[Any, ...], shown: str, limit: Any) -> Any:
    """As World.make."""
    try:
        if key is None:
            make = parent._low.new_group if len(how) == 1 else parent._low.split
            return make(*how, name=shown, timeout=limit)
        if parent._crowded:  # there may be no place for another one
            if world.held.live() >= MOST - 4:
                gc.collect()  # of what only cycles hold
            world.make(parent)
            parent._low.barrier()  # all have given back what all have dropped
        return world.make(parent, how, name=shown, timeout=limit)
    except BackendError as problem:
        if problem.code != "resource":
            raise
        told = type(problem)(f"{problem} Of those of new_group {world.held.explained()}.")
        told.code, told.culprit, told.of_tensors = problem.code, problem.culprit, problem.of_tensors
        raise told from None


def _checked_ranks(ranks: Sequence[int] | None, size: int, sort: bool) -> list[int]:
    if ranks is None:
        return list(range(size))
    listed = whole_ranks(ranks, "new_group")
    if not listed:
        raise ValueError("new_group: the list of ranks is empty; a group needs at least one")
    if len(set(listed)) != len(listed):
        raise ValueError(f"ranks list must not contain duplicate entries, got {listed}")
    if len(listed) > size:
        raise ValueError("the new group's world size should be less or equal to the world size set by "
                         "init_process_group")
    for rank in listed:
        if not 0 <= rank < size:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")
    return sorted(listed) if sort else listed


def new_group(ranks: Sequence[int] | None = None, timeout: Timeout = None, backend: str | None = None,
              pg_options: Any = None, use_local_synchronization: bool = False, group_desc: str | None = None,
              device_id: Any = None, sort_ranks: bool = True) -> Any:
    """A group of some ranks of the world (None: all), or NON_GROUP_MEMBER on a rank that is not in it.

    Every rank of the world calls it, in the same order, members or not; with
    `use_local_synchronization` the members only. Other ranks may, and get None.
    """
    parent = default_group()
    limit = timeout_or_default(timeout)
    engine = _engine(backend, parent)
    listed = _checked_ranks(ranks, len(parent._ranks), sort_ranks)
    low: _tutti.ProcessGroup | None
    if use_local_synchronization:
        if parent._own not in listed:
            return None
        name = world.local_name(listed)
        # Without the lock: members may make groups of theirs in other orders, on several threads.
        if engine[1].engine() in Backend._plugins:
            low = _by_plugin(engine, listed, parent, name, group_desc, limit, pg_options)
            return register(low, listed, engine, name, group_desc)
        low = exchange.make_among(parent, listed, name, limit)
        return register(low, listed, engine, name, group_desc, f"among/{name}")
    with world.making:
        name = world.next_name()
        if engine[1].engine() in Backend._plugins:
            low = _by_plugin(engine, listed, parent, name, group_desc, limit, pg_options)
            return register(low, listed, engine, name, group_desc)
        key = world.child_key(parent)
        low = _made(parent, key, (listed,), _shown(name, group_desc), limit)
        return register(low, listed, engine, name, group_desc, key)


def _by_plugin(engine: tuple[str, Any], ranks: list[int], parent: ProcessGroup, name: str, desc: str | None, limit: Any,
               pg_options: Any) -> _tutti.ProcessGroup | None:
    return plugins.make_sub_group(engine[1].engine(), world.store(), ranks, parent._own, name, _shown(name, desc), limit,
                                  pg_options)


def _shown(name: str, desc: str | None) -> str:
    """The name in messages."""
    return f"{desc} ({name})" if desc else f"group {name}"


def new_subgroups(group_size: int | None = None, group: AnyGroup = None, timeout: Timeout = None,
                  backend: str | None = None, pg_options: Any = None,
                  group_desc: str | None = None) -> tuple[Any, list[Any]]:
    """Divide the group (the world) into groups of `group_size` ranks that follow each other: the one that
    this rank is in, and the list of all."""
    if group_size is None:
        raise ValueError("Default group size only takes effect when CUDA is available."
                         "If your subgroup using a backend that does not depend on CUDA,"
                         "please pass in 'group_size' correctly.")
    if not hasattr(group_size, "__index__"):
        raise TypeError(f"new_subgroups: group_size is {group_size!r}; it is a whole number")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    parent = member_group(group, "new_subgroups")
    if parent is None:
        return NON_GROUP_MEMBER, []
    size = len(parent._ranks)
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size != 0:
        raise ValueError(f"The world size ({size}) must be divisible by '{group_size=}'")
    lists = [parent._ranks[first:first + group_size] for first in range(0, size, group_size)]
    return _enumerated(parent, lists, timeout, backend, group_desc, pg_options)


def new_subgroups_by_enumeration(ranks_per_subgroup_list: Sequence[Sequence[int]], timeout: Timeout = None,
                                 backend: str | None = None, pg_options: Any = None,
                                 group_desc: str | None = None) -> tuple[Any, list[Any]]:
    """Groups of the listed ranks of the world; every rank calls it. The one that this rank is in (None
    if in none), and the list of all, with NON_GROUP_MEMBER for the others."""
    what = "new_subgroups_by_enumeration: ranks_per_subgroup_list"
    parts = [] if ranks_per_subgroup_list is None else listed_parts(ranks_per_subgroup_list, what)
    if not parts:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    parent = default_group()
    seen: dict[int, list[int]] = {}
    lists = []
    for ranks in parts:
        listed = whole_ranks(ranks, "new_subgroups_by_enumeration")
        lists.append(_checked_ranks(listed, len(parent._ranks), True))
        for rank in listed:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {listed}")
            seen[rank] = listed
    return _enumerated(parent, lists, timeout, backend, group_desc, pg_options)


def _enumerated(parent: ProcessGroup, lists: list[list[int]], timeout: Timeout, backend: str | None,
                desc: str | None, pg_options: Any = None) -> tuple[Any, list[Any]]:
    """All of them by one operation: ranks of a list have one colour."""
    limit = timeout_or_default(timeout)
    engine = _engine(backend, parent)
    me = parent._ranks[parent._own]
    colour = next((number for number, ranks in enumerate(lists) if me in ranks), None)
    with world.making:
        names = [world.next_name() for _ in lists]
        shown = _shown("" if colour is None else names[colour], desc)
        low: _tutti.ProcessGroup | None
        key = None
        if engine[1].engine() not in Backend._plugins:
            key = world.child_key(parent)
            place = 0 if colour is None else lists[colour].index(me)
            low = _made(parent, key, (colour, place), shown, limit)
        else:
            low = None if colour is None else plugins.make_sub_group(
                engine[1].engine(), world.store(), lists[colour], me, names[colour], shown, limit, pg_options)
        groups = [register(low if number == colour else None, ranks, engine, names[number], desc, key)
                  for number, ranks in enumerate(lists)]
    return (None if colour is None else groups[colour]), groups


def split_group(parent_pg: Any = None, split_ranks: Sequence[Sequence[int]] | None = None,
                timeout: Timeout = None, pg_options: Any = None, group_desc: str | None = None,
                backend: str | None = None) -> ProcessGroup | None:
    """Divide a group: each list of `split_ranks` (ranks of the parent) becomes a group. Every rank of the
    parent calls it; a rank that is in no list gets None."""
    split_ranks = None if split_ranks is None else listed_parts(split_ranks, "split_group: split_ranks")
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = member_group(parent_pg, "split_group")
    if parent is None:
        return None
    size = len(parent._ranks)
    seen: set[int] = set()
    parts = [whole_ranks(ranks, "split_group") for ranks in split_ranks]
    for ranks in parts:
        if len(ranks) == 0:
            raise ValueError("the split group cannot be empty")
        if len(ranks) > size:
            raise ValueError("the split group's size should be less or equal to the world_size set by "
                             "init_process_group")
        if len(set(ranks)) != len(ranks):
            raise ValueError("the split group cannot have duplicate ranks")
        for rank in ranks:
            if not 0 <= rank < size:
                raise ValueError(f"split_group: rank {rank} is none of the parent's 0 to {size - 1}")
            if rank in seen:
                raise ValueError(f"split_group: rank {rank} stands in two lists")
            seen.add(rank)
    lists = [[parent._ranks[rank] for rank in sorted(ranks)] for ranks in parts]
    mine: ProcessGroup | None = _enumerated(parent, lists, timeout, backend, group_desc, pg_options)[0]
    return mine


def shrink_group(ranks_to_exclude: list[int], group: AnyGroup = None, shrink_flags: int = 0,
                 pg_options: Any = None) -> ProcessGroup:
    """Not to be had: always raises. Survivors of a failure make a new world (docs/how-to/after-a-failure.md, "After a failure")."""
    if not isinstance(ranks_to_exclude, list):
        raise TypeError(f"ranks_to_exclude must be a list, but got {type(ranks_to_exclude).__name__}. Example: "
                        f"[1, 3, 5] to exclude ranks 1, 3, and 5.")
    pg = default_group() if group is None else group
    if get_world_size(group) < 2:
        raise ValueError(f"Cannot shrink a process group with size {get_world_size(group)}. Group must have at least "
                         f"2 ranks to support shrinking.")
    name = getattr(pg, "_name", pg)
    raise TypeError(f"Process group backend for '{name}' does not support shrinking operations. If all ranks live, "
                    f"new_group(ranks) makes a group of some. If one was lost, those who stay let go of the world and "
                    f"make a new one, with new ranks and under a new name: destroy_process_group(), then "
                    f"init_process_group(store=..., rank=..., world_size=..., group_name=...)")
