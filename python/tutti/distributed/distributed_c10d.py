"""The module that programs reach into: the same names, and some that torch.distributed keeps to itself."""

from datetime import timedelta
from typing import Any

from tutti.distributed import *  # noqa: F403
from tutti.distributed.coalesced import _coalescing_manager
from tutti.distributed.constants import check_timedelta, default_pg_timeout
from tutti.distributed.process_group import (ProcessGroup, _rank_not_in_group, default_group, get_world_size,
                                             registered)
from tutti.distributed.stores import Store
from tutti.distributed.world import world

__all__ = ["_coalescing_manager", "_get_default_group", "_get_default_store", "_get_default_timeout",
           "_get_group_size", "_get_pg_config", "_get_process_group_name", "_get_process_group_store",
           "_rank_not_in_group", "_resolve_process_group", "_set_pg_timeout"]


def _get_default_group() -> ProcessGroup:
    """The world; ValueError before init_process_group."""
    return default_group()


def _get_default_store() -> Store:
    """A part of the store in which the world met, for the program's own keys; ValueError before init_process_group."""
    return world.store()


def _get_process_group_store(pg: ProcessGroup) -> Store:
    """As pg.get_group_store()."""
    return pg.get_group_store()


def _get_process_group_name(pg: ProcessGroup) -> str:
    """As pg.group_name."""
    return pg.group_name


def _resolve_process_group(group_name: str) -> ProcessGroup:
    """The group of that name; RuntimeError if none lives."""
    pg = world.groups.get(group_name)
    if not isinstance(pg, ProcessGroup):
        raise RuntimeError(f"Could not resolve the process group registered under the name {group_name}")
    return pg


def _get_group_size(group: Any) -> int:
    """As get_world_size(group)."""
    return get_world_size(group)


def _get_default_timeout(backend: Any) -> timedelta:
    """30 minutes, whatever the engine."""
    return default_pg_timeout


def _set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """As group.set_timeout(timeout); of the world for None."""
    check_timedelta(timeout)
    registered(group).set_timeout(timeout)


def _get_pg_config(group: Any = None) -> dict[str, Any]:
    """Name, description, engine, size and ranks of a group, of the world for None."""
    pg = registered(group)
    return {"pg_name": pg.group_name, "pg_desc": pg.group_desc, "backend_config": repr(pg._config),
            "pg_size": pg.size(), "ranks": pg.ranks}
