"""Groups of ranks, and which of them this process has."""

import warnings
import zlib
from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, NoReturn, TypeAlias

from tutti import _tutti
from tutti._tutti import NO_RANK
from tutti._times import Timeout, duration
from tutti.distributed.constants import default_pg_timeout
from tutti.distributed.methods import GroupMethods
from tutti.distributed.ranks import whole_rank, whole_ranks
from tutti.distributed.stores import PrefixStore, Store
from tutti.distributed.world import DESTROYED, UNINITIALISED, Group, of_torchs_world, world
from tutti.errors import DisagreementError, InvalidArgument, NoGroupError


class ProcessGroup(GroupMethods, Group):
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

    @property
    def timeout(self) -> timedelta:
        """Of operations that say none."""
        return self._low.timeout

    def set_timeout(self, timeout: float | timedelta) -> None:
        """Of operations that this rank starts from now on and that say none; those that run keep theirs. Other
        ranks are not told. ValueError unless it is positive."""
        self._low.set_timeout(duration(timeout))

    @property
    def group_name(self) -> str:
        """A number for most groups: every rank counts the groups that it hears of."""
        return self._name

    @property
    def group_desc(self) -> str:
        """The name that the program has given the group; errors tell it."""
        return self._desc

    def get_group_store(self) -> Store:
        """A part of the store in which the world met, for keys of this group alone; every member has the same. It is
        gone with the world. ValueError after destroy_process_group."""
        return PrefixStore(self._name, world.store())

    def split_group(self, ranks: Sequence[int], timeout: Timeout = None, opts: Any = None,
                    group_name: str | None = None, group_desc: str | None = None, device_types: Any = None) -> Any:
        """The group of `ranks` (of this one, in ascending order); None on a rank that is not in its own list. Every rank of
        this group calls it, at the same time, with the list of the group that it will be in, or any other: so one
        call makes several. `opts` and `device_types` change nothing.

        Errors: InvalidArgument for a list that is empty, has a rank twice or one that is not here;
        DisagreementError where members have given different lists.
        """
        timeout = None if timeout is None else duration(timeout)
        listed = sorted(whole_ranks(ranks, "split_group"))
        if not listed:
            raise InvalidArgument("Split ranks cannot be empty. Please provide a non-empty list of ranks to split the "
                                  "group.")
        if len(set(listed)) != len(listed):
            raise InvalidArgument("Split ranks should not have duplicates. Please provide a list of unique ranks to "
                                  "split the group.")
        if listed[0] < 0 or listed[-1] >= len(self._ranks):
            raise InvalidArgument(f"split_group: {listed} are not all of the group's ranks 0 to {len(self._ranks) - 1}")
        member = self._own in listed
        name = group_name or f"{self._name}:split:{listed}"
        low = self._low.split(listed[0] if member else None, name=f"group {name}", timeout=timeout)
        if low is None:
            return None
        come = [self._low.group_rank(rank) for rank in low.ranks]
        given = zlib.crc32(repr(listed).encode()).to_bytes(4, "little")
        all_given = bytearray(4 * low.size)
        low.all_gather(all_given, given)
        if come != listed or all_given != given * low.size:
            low.close()
            raise DisagreementError(f"split_group of group {self._name!r}: this rank has given the ranks {listed}, but "
                                    f"{come} have given lists that begin with {listed[0]}; give all members the same")
        return self._sibling(low, [self._ranks[rank] for rank in listed], name, group_desc or f"{self._desc}:split")

    def merge_remote_group(self, store: Store, size: int, timeout: float | timedelta = default_pg_timeout,
                           group_name: str | None = None, group_desc: str | None = None) -> Any:
        """The group of all `size` processes that meet in `store`: of this group and of others, be they of this world
        or not. Every member of each calls it, with the same store, which serves once (take a PrefixStore for the
        next one). Groups follow each other as they come; the ranks of each keep their order.

        What comes out is a world of its own: its connections are its own, and its ranks count as global ones.
        Errors: InvalidArgument for a size that the groups do not make; TimeoutError where some do not come.
        """
        timeout = duration(timeout)
        own, first = len(self._ranks), bytearray(8)
        if not isinstance(store, Store):
            raise TypeError(f"merge_remote_group: store is a Store, not {store!r}")
        if isinstance(size, bool) or not isinstance(size, int) or size < own:
            raise InvalidArgument(f"merge_remote_group: size is {size!r}; it counts all ranks, and this group has {own}")
        part = PrefixStore("merge", store)
        if self._own == 0:
            first[:] = (part.add("ranks", own) - own).to_bytes(8, "little")
        self._low.broadcast(first, 0, timeout=timeout)
        begin = int.from_bytes(first, "little")
        if begin + own > size:
            raise InvalidArgument(f"merge_remote_group: {begin + own} ranks have come to {store!r}, which are not {size}; "
                                  f"a store serves once, so take another prefix for each merge")
        name = group_name or f"{self._name}:merge"
        low = _tutti.init_process_group(store=part, rank=begin + self._own, world_size=size, timeout=timeout,
                                        name=f"group {name}", backend=self._config.engine())
        return self._sibling(low, list(range(size)), name, group_desc or f"{self._desc}:merge")

    def _sibling(self, low: _tutti.ProcessGroup, ranks: list[int], name: str, desc: str) -> Any:
        """A new group on the same engine, known to this module. A name that is taken gets a number."""
        with world.lock:
            return world.add(ProcessGroup(low, ranks, self._backend, self._config, world.free_name(name), desc))

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a ProcessGroup cannot be pickled: its connections are this process's; send its ranks, {self._ranks}, "
                        f"and call new_group in a process of the same world")

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
        raise ValueError(UNINITIALISED + of_torchs_world())
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
        raise NoGroupError("Invalid process group specified: a tutti.ProcessGroup; take one of tutti.distributed.new_group")
    raise NoGroupError(f"Process group {pg} is not initialized in the world group map. Please initialize the group first. "
                       f"(`group` got this {type(pg).__name__}: give what comes after it by name, as in tag=7)")


def resolved(group_name: str) -> ProcessGroup:
    """The living group of that name, which keeps none; RuntimeError if there is none."""
    pg = world.groups.get(group_name)
    if not isinstance(pg, ProcessGroup):
        raise RuntimeError(f"Could not resolve the process group registered under the name {group_name}: it was destroyed, or the "
                           f"program holds none of its objects any more (a name alone keeps no group)")
    return pg


def rank_in_group(pg: ProcessGroup, global_rank: int | None, group_rank: int | None) -> int:
    """The one that was given, as a rank of the group."""
    if type(global_rank) is int and group_rank is None and pg is world.default and 0 <= global_rank < len(pg._ranks):
        return global_rank  # almost always
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
        if global_rank == NO_RANK:
            return NO_RANK
        raise ValueError(f"Global rank {global_rank} is not part of group {pg}")
    return position


def sender_in_group(pg: ProcessGroup, global_rank: int | None, group_rank: int | None) -> int | None:
    """As rank_in_group; None, which means any rank, where none is given. MPI's programs write -1 for it."""
    if global_rank is None and group_rank is None:
        return None
    if global_rank == -1 or group_rank == -1:
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
    if not 0 <= rank <= _LARGEST_RANK and rank != NO_RANK:
        raise InvalidArgument(f"rank {rank} is none of the group's 0 to {len(pg._ranks) - 1}")
    return rank


def global_rank_of(pg: ProcessGroup, group_rank: int) -> int:
    """The rank in the world of a rank of the group."""
    try:
        return pg._ranks[group_rank]
    except IndexError:
        return NO_RANK
