"""The module that programs reach into: the same names, and some that torch.distributed keeps to itself."""

from datetime import timedelta
from typing import Any

from tutti.distributed import *  # noqa: F403
from tutti.distributed.coalesced import _coalescing_manager, _CoalescingManager
from tutti.distributed.collectives import _all_gather_base, _reduce_scatter_base
from tutti.distributed.constants import default_pg_timeout
from tutti.distributed.init import _abort_process_group
from tutti.distributed.known_groups import (STORE_BASED_BARRIER_PREFIX, _check_valid_timeout,
                                            _find_pg_by_ranks_and_tag, _get_group_tag, _get_object_coll_device,
                                            _get_pg_default_device, _new_process_group_helper, _store_based_barrier,
                                            _unregister_process_group, _update_default_pg, _world)
from tutti.distributed.objects import check_objects
from tutti.distributed.process_group import (AnyGroup, ProcessGroup, _rank_not_in_group, default_group, get_world_size,
                                             registered, resolved)
from tutti.distributed.stores import Store
from tutti.distributed.world import world

__all__ = ["STORE_BASED_BARRIER_PREFIX", "_CoalescingManager", "_abort_process_group", "_all_gather_base",
           "_check_valid_timeout", "_coalescing_manager", "_find_pg_by_ranks_and_tag", "_get_default_group",
           "_get_default_store", "_get_default_timeout", "_get_group_size", "_get_group_tag", "_get_object_coll_device",
           "_get_pg_config", "_get_pg_default_device", "_get_process_group_name", "_get_process_group_store",
           "_new_process_group_helper", "_object_to_tensor", "_rank_not_in_group", "_reduce_scatter_base",
           "_resolve_process_group", "_set_pg_timeout", "_store_based_barrier", "_tensor_to_object",
           "_unregister_process_group", "_update_default_pg", "_world", "default_pg_nccl_timeout"]

default_pg_nccl_timeout = timedelta(minutes=10)


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
    return resolved(group_name)


def _get_group_size(group: Any) -> int:
    """As get_world_size(group)."""
    return get_world_size(group)


def _get_default_timeout(backend: Any) -> timedelta:
    """30 minutes, whatever the engine."""
    return default_pg_timeout


def _set_pg_timeout(timeout: float | timedelta, group: AnyGroup = None) -> None:
    """As group.set_timeout(timeout); of the world for None."""
    registered(group).set_timeout(timeout)


def _get_pg_config(group: AnyGroup = None) -> dict[str, Any]:
    """Name, description, engine, size and ranks of a group, of the world for None."""
    pg = registered(group)
    return {"pg_name": pg.group_name, "pg_desc": pg.group_desc, "backend_config": repr(pg._config),
            "pg_size": pg.size(), "ranks": pg.ranks}


def _object_to_tensor(obj: Any, device: Any, group: Any) -> tuple[Any, Any]:
    """A pickle of the object, and its length, as torch tensors."""
    import pickle

    import torch
    check_objects(registered(group), "_object_to_tensor")
    data = torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8).to(device)
    return data, torch.tensor([data.numel()], dtype=torch.long, device=device)


def _tensor_to_object(tensor: Any, tensor_size: Any, group: Any) -> Any:
    """The object of such a pickle. It runs what the one who made it wants."""
    import pickle
    check_objects(registered(group), "_tensor_to_object")
    return pickle.loads(bytes(tensor.cpu().numpy().tobytes()[:int(tensor_size)]))
