"""The module that programs reach into: the same names, and some that torch.distributed keeps to itself."""

from typing import Any

from tutti import _tutti
from tutti._times import Timeout, duration
from tutti.distributed import *  # noqa: F403
from tutti.distributed.backend import engine_of
from tutti.distributed.coalesced import _coalescing_manager
from tutti.distributed.collectives import _all_gather_base, _reduce_scatter_base
from tutti.distributed.constants import default_pg_timeout
from tutti.distributed.process_group import NON_GROUP_MEMBER, ProcessGroup
from tutti.distributed.process_group import default_group as _get_default_group
from tutti.distributed.process_group import resolved as _resolve_process_group
from tutti.distributed.stores import PrefixStore, Store
from tutti.distributed.world import world

__all__ = ["_all_gather_base", "_coalescing_manager", "_get_default_group", "_get_default_store",
           "_new_process_group_helper", "_reduce_scatter_base", "_resolve_process_group", "_world"]

_get_default_store = world.store


class _Ranks:
    """For each group its ranks in the group by its global ranks. An assignment holds from then on."""

    def __getitem__(self, group: ProcessGroup) -> dict[int, int]:
        if not isinstance(group, ProcessGroup) or not group._known:
            raise KeyError(group)
        return dict(group._index)

    def __setitem__(self, group: ProcessGroup, ranks: dict[int, int]) -> None:
        if sorted(ranks.values()) != list(range(group.size())):
            raise ValueError(f"the ranks of {group} are 0 to {group.size() - 1}, each once, not {ranks}")
        group._index = dict(ranks)
        group._ranks = sorted(ranks, key=ranks.__getitem__)


class _world:
    """torch's record of the groups, of which programs set the ranks of a group that they have put together."""

    pg_group_ranks = _Ranks()


def _new_process_group_helper(group_size: int, group_rank: int, global_ranks_in_group: list[int], backend: Any,
                              store: Store, group_name: str, backend_options: Any = None,
                              timeout: Timeout = None, pg_tag: str | None = None, device_id: Any = None,
                              group_desc: str | None = None) -> tuple[Any, Any]:
    """A group of all processes that come to `store` with that name, each with its own `group_rank` of `group_size`: of
    this world, of others, or of none. With it the part of the store where they have met.

    It is a world of its own below, with connections of its own, and destroy_process_group(group) ends it. Global ranks
    are `global_ranks_in_group`, or 0, 1, 2, ... where that is empty; a process that is not in the list gets
    (NON_GROUP_MEMBER, None).
    """
    if global_ranks_in_group and _get_default_group()._own not in global_ranks_in_group:
        return NON_GROUP_MEMBER, None
    name, config = engine_of(None if backend in (None, "") else str(backend))
    limit = default_pg_timeout if timeout is None else duration(timeout)
    part = PrefixStore(f"{group_name}/", store)
    low = _tutti.init_process_group(store=part, rank=group_rank, world_size=group_size, timeout=limit,
                                    name=f"group {group_name}", backend=config.engine(), backend_options=backend_options)
    ranks = list(global_ranks_in_group) or list(range(group_size))
    with world.lock:
        made = ProcessGroup(low, ranks, name, config, world.free_name(str(group_name)), group_desc or "undefined")
        return world.add(made), part
