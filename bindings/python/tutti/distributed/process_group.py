"""Groups of ranks, and which of them this process has."""

import warnings
from types import TracebackType
from typing import Any, TypeAlias

from tutti import _tutti
from tutti.distributed.group_attributes import GroupAttributes
from tutti.distributed.methods import GroupMethods
from tutti.distributed.ranks import whole_rank
from tutti.distributed.world import DESTROYED, UNINITIALISED, world
from tutti.errors import InvalidArgument, NoGroupError

_INVALID = "Invalid process group specified"


class ProcessGroup(GroupMethods, GroupAttributes):
    """A group that this process is a member of; init_process_group, new_group, new_subgroups and
    split_group make them.

    As a context it destroys itself at the end of the block; an error that leaves the block breaks it
    first, so that the other members hear why.
    """

    __slots__ = ()

    def rank(self) -> int:
        """Ours, in this group."""
        return self._own

    def size(self) -> int:
        """How many ranks it has."""
        return len(self._ranks)

    def name(self) -> str:
        """The engine's name, as torch.distributed has it."""
        return self._backend

    @property
    def ranks(self) -> list[int]:
        """Global ranks, in the order of the group's."""
        return list(self._ranks)

    @property
    def closed(self) -> bool:
        """destroy_process_group was called for it."""
        return not self._known

    def health(self) -> Exception | None:
        """None, or the error that broke the group."""
        return self._low.health()

    def abort(self, reason: str = "abort was called") -> None:
        """Break it here and on every other member: all running and later operations fail."""
        self._low.abort(reason)

    def shutdown(self) -> None:
        """Destroy it, as destroy_process_group does."""
        world.destroy(self)

    def __enter__(self) -> "ProcessGroup":
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.closed:
            return
        if problem is not None:
            self.abort(f"{type(problem).__name__} in a block that owned the group: {problem}")
        self.shutdown()

    def __repr__(self) -> str:
        return (f"<tutti.distributed.ProcessGroup {self._name!r} ({self._backend}) rank {self._own} of "
                f"{len(self._ranks)}{', destroyed' if self.closed else ''}>")


class _NonMember(int):
    """The result of new_group on a rank that is not in the group: -100. As a context it does nothing."""

    def __enter__(self) -> "_NonMember":
        return self

    def __exit__(self, *_: object) -> None:
        pass


NON_GROUP_MEMBER = _NonMember(-100)


AnyGroup: TypeAlias = ProcessGroup | _NonMember | None
"""The group of a call: one that new_group gave, on members and others; None is the world."""


class _WorldMeta(type):
    """Gives classes a WORLD that is the default group of the moment."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        pg: ProcessGroup | None = world.default
        return pg

    @WORLD.setter
    def WORLD(cls, pg: ProcessGroup | None) -> None:
        world.default = pg


class group(metaclass=_WorldMeta):
    """`group.WORLD`: the default group; None before init_process_group."""


class GroupMember(metaclass=_WorldMeta):
    """`GroupMember.WORLD`, and the value that stands for a group that this process is not in."""

    NON_GROUP_MEMBER = NON_GROUP_MEMBER


def default_group() -> ProcessGroup:
    """The world; ValueError before init_process_group, BackendError in a forked child that has none of its own."""
    if world.default is None:
        refuse_parents(world.parents_default())
        raise ValueError(UNINITIALISED)
    pg: ProcessGroup = world.default
    return pg


def refuse_parents(pg: ProcessGroup | None) -> None:
    """Raises what every call on a group of the parent raises, if it is one."""
    problem = pg._low.health() if pg is not None and world.is_parents(pg) else None
    if problem is not None:
        raise problem


def told_default() -> ProcessGroup | None:
    """The world, or in a forked child without one that of the parent, which tells its ranks: loaders of data ask."""
    pg: ProcessGroup | None = world.parents_default() if world.default is None else world.default
    return pg


def _told_group(pg: Any) -> ProcessGroup:
    """The same for a group."""
    if isinstance(pg, ProcessGroup) and world.is_parents(pg):
        return pg
    return registered(pg) if pg is not None else told_default() or default_group()


def is_non_member(pg: Any) -> bool:
    """It stands for a group that this process is not in."""
    return type(pg) is not ProcessGroup and isinstance(pg, int) and pg == -100


def member_group(pg: Any, operation: str) -> ProcessGroup | None:
    """The group of a call; None, after a warning, for NON_GROUP_MEMBER."""
    if pg is None:
        return default_group()
    if type(pg) is ProcessGroup and pg._known:
        return pg
    if is_non_member(pg):
        rank = default_group()._own
        warnings.warn(f"Running {operation} on global rank {rank} which does not belong to the given group.",
                      stacklevel=3)
        return None
    if isinstance(pg, ProcessGroup):
        refuse_parents(pg)
        default_group()
        raise ValueError(DESTROYED)
    default_group()
    if isinstance(pg, _tutti.ProcessGroup):
        raise NoGroupError(f"{_INVALID}: a tutti.ProcessGroup; take one of tutti.distributed.new_group")
    raise NoGroupError(f"Process group {pg} is not initialized in the world group map. Please initialize the group first.")


def registered(pg: Any) -> ProcessGroup:
    """A living group; ValueError else."""
    if pg is None:
        return default_group()
    if isinstance(pg, ProcessGroup) and pg._known:
        return pg
    raise ValueError(f"Group {pg} is not registered, please create group with tutti.distributed.new_group API")


def resolved(group_name: str) -> ProcessGroup:
    """The living group of that name, which keeps none; RuntimeError if there is none."""
    pg = world.groups.get(group_name)
    if not isinstance(pg, ProcessGroup):
        raise RuntimeError(f"Could not resolve the process group registered under the name {group_name}: it was destroyed, or the "
                           f"program holds none of its objects any more (a name alone keeps no group)")
    return pg


def rank_in_group(pg: ProcessGroup, global_rank: int | None, group_rank: int | None) -> int:
    """The one that was given, as a rank of the group."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return _no_wildcard(pg, group_rank)
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    if type(global_rank) is int and pg is world.default:
        return _no_wildcard(pg, global_rank)
    if type(global_rank) is not int:
        global_rank = whole_rank(global_rank)
    position = pg._index.get(global_rank)
    if position is None:
        raise ValueError(f"Global rank {global_rank} is not part of group {pg}")
    return position


def sender_in_group(pg: ProcessGroup, global_rank: int | None, group_rank: int | None) -> int | None:
    """As rank_in_group; None, which means any rank, where none is given. MPI's programs write -1 for it."""
    if global_rank is None and group_rank is None:
        return None
    if -1 in (global_rank, group_rank):
        raise InvalidArgument(f"rank -1 is none of the group's 0 to {len(pg._ranks) - 1}; to receive from any rank give "
                              f"none, or None")
    return rank_in_group(pg, global_rank, group_rank)


def rank_or_first(pg: ProcessGroup, global_rank: int | None, group_rank: int | None) -> int:
    """As rank_in_group; where none is given global rank 0 is meant, which need not be in the group."""
    return rank_in_group(pg, 0 if global_rank is None and group_rank is None else global_rank, group_rank)


_LARGEST_RANK = 2**31 - 1  # that C++ can be told, which refuses those that the group has not


def _no_wildcard(pg: ProcessGroup, rank: int) -> int:
    """The rank; ValueError below 0, which would mean anybody further down."""
    if type(rank) is not int:
        rank = whole_rank(rank)
    if not 0 <= rank <= _LARGEST_RANK:
        raise InvalidArgument(f"rank {rank} is none of the group's 0 to {len(pg._ranks) - 1}")
    return rank


def global_rank_of(pg: ProcessGroup, group_rank: int) -> int:
    """The rank in the world of a rank of the group."""
    return pg._ranks[group_rank]


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
