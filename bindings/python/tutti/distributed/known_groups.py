"""torch.distributed.distributed_c10d's own record of the groups, `_world`, and what programs do with it."""

from collections.abc import Iterator, MutableMapping
from datetime import timedelta
from typing import Any

from tutti import _tutti
from tutti._times import Timeout, duration
from tutti.distributed.backend import BackendConfig, engine_of
from tutti.distributed.constants import default_pg_timeout
from tutti.distributed.process_group import NON_GROUP_MEMBER, ProcessGroup, default_group, registered
from tutti.distributed.stores import PrefixStore, Store
from tutti.distributed.world import world


class _Ranks(MutableMapping[ProcessGroup, dict[int, int]]):
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

    def __delitem__(self, group: ProcessGroup) -> None:
        raise TypeError("a group forgets its ranks when it is destroyed: destroy_process_group(group)")

    def __iter__(self) -> Iterator[ProcessGroup]:
        return (group for group in list(world.groups.values()) if isinstance(group, ProcessGroup))

    def __len__(self) -> int:
        return len(world.groups)


class _World:
    """All groups of this process. Maps are made anew at each question, but for `pg_group_ranks`."""

    pg_group_ranks = _Ranks()

    @property
    def default_pg(self) -> ProcessGroup | None:
        """The world; None before init_process_group."""
        group: ProcessGroup | None = world.default
        return group

    @default_pg.setter
    def default_pg(self, group: ProcessGroup | None) -> None:
        world.default = group

    @property
    def pg_map(self) -> dict[ProcessGroup, tuple[str, Store | None]]:
        """The engine and the store of each group."""
        return {group: (group._backend, None if world.default is None else group.get_group_store())
                for group in self.pg_group_ranks}

    @property
    def pg_names(self) -> dict[ProcessGroup, str]:
        """The name of each group."""
        return {group: group._name for group in self.pg_group_ranks}

    @property
    def pg_backend_config(self) -> dict[ProcessGroup, str]:
        """Such as "cpu:gloo", of each group."""
        return {group: repr(group._config) for group in self.pg_group_ranks}

    @property
    def group_count(self) -> int:
        """How many groups were made; the name of the next one."""
        return world.count

    @group_count.setter
    def group_count(self, value: int) -> None:
        world.count = value

    @property
    def pg_to_tag(self) -> dict[ProcessGroup, str]:
        """The tag of each group: "" of the world, else its name."""
        return {group: "" if group is world.default else f"ptd:{group._name}" for group in self.pg_group_ranks}

    @property
    def tags_to_pg(self) -> dict[str, list[ProcessGroup]]:
        """The groups of each tag."""
        groups: dict[str, list[ProcessGroup]] = {}
        for group, tag in self.pg_to_tag.items():
            groups.setdefault(tag, []).append(group)
        return groups

    @property
    def pg_config_info(self) -> list[dict[str, Any]]:
        """Name, engine, size and ranks of each group."""
        return [{"pg_name": group._name, "pg_desc": group._desc, "backend_config": repr(group._config),
                 "pg_size": group.size(), "ranks": group.ranks} for group in self.pg_group_ranks]


_world = _World()


def _update_default_pg(pg: ProcessGroup | None) -> None:
    """Another group is the world from now on."""
    world.default = pg


def _get_group_tag(pg: ProcessGroup) -> str:
    """The tag of a group."""
    return _world.pg_to_tag[pg]


def _find_pg_by_ranks_and_tag(tag: str, ranks: list[int]) -> ProcessGroup | None:
    """The group of these global ranks with that tag; None if there is none."""
    for group in _world.tags_to_pg.get(tag, []):
        if sorted(group._ranks) == sorted(ranks):
            return group
    return None


def _unregister_process_group(group_name: str) -> None:
    """Forget the name of a group, which then is as one that was destroyed."""
    group = world.groups.get(group_name)
    if group is not None:
        world.forget(group)


def _get_pg_default_device(group: Any = None) -> Any:
    """The device of the group's tensors: the CPU, as torch.device where torch is in use."""
    return registered(group)._device_types[0]


def _get_object_coll_device(group: Any = None) -> str:
    """Where objects travel: "cpu"."""
    registered(group)
    return "cpu"


def _check_valid_timeout(timeout: Any) -> None:
    """TypeError unless it is a timedelta or a number of seconds."""
    duration(timeout)


STORE_BASED_BARRIER_PREFIX = "store_based_barrier_key"


def _store_based_barrier(rank: int, store: Store, group_name: str, rendezvous_count: int, timeout: float | timedelta,
                         logging_interval: float | timedelta = timedelta(seconds=10)) -> None:
    """Until `rendezvous_count` processes have come, by the store alone. DistStoreError else."""
    key = f"{STORE_BASED_BARRIER_PREFIX}:{group_name}"
    if store.add(key, 1) == rendezvous_count:
        store.set(f"{key}:last_worker", "1")
    store.wait([f"{key}:last_worker"], timeout)


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
    if global_ranks_in_group and default_group()._own not in global_ranks_in_group:
        return NON_GROUP_MEMBER, None
    name, config = engine_of(None if backend in (None, "") else str(backend))
    limit = default_pg_timeout if timeout is None else duration(timeout)
    part = PrefixStore(f"{group_name}/", store)
    low = _tutti.init_process_group(store=part, rank=group_rank, world_size=group_size, timeout=limit,
                                    name=f"group {group_name}", backend=config.engine(), backend_options=backend_options)
    ranks = list(global_ranks_in_group) or list(range(group_size))
    with world.lock:
        made = ProcessGroup(low, ranks, name, config if isinstance(config, BackendConfig) else None,
                            world.free_name(str(group_name)), group_desc or "undefined")
        return world.add(made), part
