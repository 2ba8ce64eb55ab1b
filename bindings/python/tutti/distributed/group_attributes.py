"""The attributes of a group of torch.distributed: its names, its timeout, its store, and groups that are made of it."""

import zlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tutti import _tutti
from tutti._times import Timeout, duration
from tutti.distributed.constants import default_pg_timeout
from tutti.distributed.ranks import whole_ranks
from tutti.distributed.stores import PrefixStore, Store
from tutti.distributed.world import Group, world
from tutti.errors import DisagreementError, InvalidArgument


class GroupAttributes(Group):
    """The attributes of a ProcessGroup."""

    __slots__ = ()

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
            return world.add(type(self)(low, ranks, self._backend, self._config, world.free_name(name), desc))
