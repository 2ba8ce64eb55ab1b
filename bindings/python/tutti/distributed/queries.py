"""What a program asks of its groups: ranks, sizes, engines."""

from typing import Any

from tutti.distributed.process_group import (AnyGroup, ProcessGroup, default_group, is_non_member, member_group,
                                             told_default)
from tutti.distributed.world import world

_INVALID = "Invalid process group specified"


def _told_group(pg: Any) -> ProcessGroup:
    """A living group, or one of the parent's in a forked child, which tells its ranks; ValueError else."""
    if pg is None:
        return told_default() or default_group()
    if isinstance(pg, ProcessGroup) and (pg._known or world.is_parents(pg)):
        return pg
    raise ValueError(f"Group {pg} is not registered, please create group with tutti.distributed.new_group API")


def get_rank(group: AnyGroup = None) -> int:
    """Ours in the group; -1 if we are not in it."""
    if group is None and world.default is not None:
        own: int = world.default._own
        return own
    if is_non_member(group):
        return -1
    return _told_group(group)._own


def get_world_size(group: AnyGroup = None) -> int:
    """How many ranks the group has; -1 if we are not in it."""
    if group is None and world.default is not None:
        return len(world.default._ranks)
    if is_non_member(group):
        return -1
    return len(_told_group(group)._ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The rank in the group of a rank of the world."""
    pg = _told_group(group)
    position = pg._index.get(global_rank)
    if position is None:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return position


def get_global_rank(group: Any, group_rank: int) -> int:
    """The rank in the world of a rank of the group."""
    pg = _told_group(group)
    if not isinstance(group_rank, int) or not 0 <= group_rank < len(pg._ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return pg._ranks[group_rank]


def get_process_group_ranks(group: Any) -> list[int]:
    """The global ranks of the group's members, in the order of the group's ranks."""
    if group is None or isinstance(group, ProcessGroup) and world.is_parents(group):
        return list(_told_group(group)._ranks)
    default_group()
    if not isinstance(group, ProcessGroup) or not group._known:
        if is_non_member(group):
            raise KeyError("get_process_group_ranks: this rank is not in the group, and does not know its ranks")
        raise KeyError(group)
    return list(group._ranks)


def get_backend(group: AnyGroup = None) -> str:
    """The engine's name, as the caller gave it, in lower case."""
    if group is None:
        return _told_group(None)._backend
    if is_non_member(group):
        default_group()
        raise ValueError(_INVALID)
    default_group()
    if not isinstance(group, ProcessGroup) or group.closed:
        raise ValueError(f"Process group {group} is not initialized in the world group map. Please initialize the "
                         f"group first.")
    return group._backend


def get_backend_config(group: AnyGroup = None) -> str:
    """Such as "cpu:gloo"."""
    pg = default_group() if group is None else group
    if not isinstance(pg, ProcessGroup) or pg.closed:
        raise ValueError(_INVALID)
    return repr(pg._config)


def mpi_communicator(group: AnyGroup = None) -> int:
    """The handle of the communicator on which the group (the world) runs: `mpi4py.MPI.Comm.fromhandle` takes it.

    It belongs to the group: duplicate it for operations of your own, and do not free it. ValueError for a group that is
    on another backend.
    """
    member = member_group(group, "mpi_communicator")
    handle = None if member is None else member._low.communicator
    if handle is None:
        raise ValueError("mpi_communicator: the group is not on the backend \"mpi\", or this rank is not in it")
    return int(handle)


def get_pg_count() -> int:
    """How many groups were made since init."""
    return world.count
