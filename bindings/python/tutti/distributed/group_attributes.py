"""The attributes of a group of torch.distributed: its store, its timeout, its parts, the engine behind it.

An attribute that has no meaning here raises a RuntimeError that says what to do instead.
"""

import zlib
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from tutti import _tutti
from tutti._times import Timeout, duration
from tutti.distributed.backend import BackendType as Kind
from tutti.distributed.constants import default_pg_timeout
from tutti.distributed.ranks import whole_ranks
from tutti.distributed.stores import PrefixStore, Store
from tutti.distributed.world import Group, world
from tutti.errors import DisagreementError, InvalidArgument


class EngineOptions:
    """The options of the engine of a group: `backend`, `group_name`, `global_ranks_in_group`, `_timeout`."""

    def __init__(self, backend: str, name: str, ranks: list[int], timeout: timedelta) -> None:
        self.backend = backend
        self.group_name = name
        self.global_ranks_in_group = ranks
        self._timeout = timeout


def _not_here(name: str, why: str) -> NoReturn:
    raise RuntimeError(f"ProcessGroup.{name}: {why}")


def _device_name(device: Any) -> str:
    """"cuda" of a torch.device, of "cuda:1" and of "cuda"."""
    return str(getattr(device, "type", device)).split(":")[0]


class GroupAttributes(Group):
    """The attributes of a ProcessGroup."""

    __slots__ = ()

    BackendType = Kind
    UNDEFINED = Kind.UNDEFINED
    GLOO = Kind.GLOO
    NCCL = Kind.NCCL
    UCC = Kind.UCC
    MPI = Kind.MPI
    XCCL = Kind.XCCL
    CUSTOM = Kind.CUSTOM

    # ---- settings ----

    @property
    def timeout(self) -> timedelta:
        """Of operations that say none."""
        return self._low.timeout

    def set_timeout(self, timeout: float | timedelta) -> None:
        """Of operations that this rank starts from now on and that say none; those that run keep theirs. Other
        ranks are not told. ValueError unless it is positive."""
        self._low.set_timeout(duration(timeout))

    _set_default_timeout = set_timeout

    @property
    def group_name(self) -> str:
        """A number for most groups: every rank counts the groups that it hears of."""
        return self._name

    def _set_group_name(self, name: str) -> None:
        _not_here("_set_group_name", "a group has its name from new_group, and is found by it")

    @property
    def group_desc(self) -> str:
        """The name that the program has given the group; errors tell it."""
        return self._desc

    @property
    def bound_device_id(self) -> None:
        """None: no group here is bound to an accelerator."""
        return None

    @bound_device_id.setter
    def bound_device_id(self, device: Any) -> None:
        if device is not None:
            _not_here("bound_device_id", f"no engine here is bound to a device, so not to {device!r}")

    # ---- the engine ----

    def _get_backend(self, device: Any) -> "GroupAttributes":
        """The engine for tensors of that device: the group itself, which has one for all. RuntimeError for a device
        that it does not serve."""
        name = _device_name(device)
        if name not in self._config.get_device_backend_map():
            raise RuntimeError(f"No backend type associated with device type {name}: the group serves "
                               f"{', '.join(self._config.get_device_backend_map())}")
        return self

    @property
    def options(self) -> EngineOptions:
        """The options of the engine, as `_get_backend(device).options` tells them."""
        return EngineOptions(self._backend, self._name, list(self._ranks), self._low.timeout)

    @property
    def _device_types(self) -> list[Any]:
        import sys
        torch: Any = sys.modules.get("torch")
        names = list(self._config.get_device_backend_map())
        return [torch.device(name) for name in names] if hasattr(torch, "device") else names

    @property
    def supports_splitting(self) -> bool:
        """True: split_group makes groups of it."""
        return True

    @property
    def supports_coalescing(self) -> bool:
        """False: there is no _start_coalescing. A _coalescing_manager needs none here."""
        return False

    @property
    def supports_time_estimate(self) -> bool:
        """False: nothing here foretells how long an operation takes."""
        return False

    @property
    def supports_shrinking(self) -> bool:
        """False: see shrink_group."""
        return False

    @property
    def use_pg_for_symm_mem_rendezvous(self) -> bool:
        """False: there is no symmetric memory of accelerators here."""
        return False

    def _id(self) -> int:
        """Tells the groups of this process apart while they live."""
        return id(self)

    def _backend_id(self, backend_type: Kind) -> int:
        """The group's own, which has one engine. TypeError unless it is a BackendType."""
        if not isinstance(backend_type, Kind):
            raise TypeError(f"_backend_id takes a ProcessGroup.BackendType, not {backend_type!r}")
        return id(self)

    def boxed(self) -> "GroupAttributes":
        """The group itself: nothing here is compiled by TorchScript, for which torch.distributed boxes it."""
        return self

    unbox = boxed

    def _register_backend(self, device: Any, backend_type: Any, backend: Any = None) -> None:
        _not_here("_register_backend", "a group has one engine for life; Backend.register_backend makes another one "
                                       "known, and new_group(backend=...) makes a group on it")

    def _set_default_backend(self, backend_type: Any) -> None:
        _not_here("_set_default_backend", "a group has one engine for life; new_group(backend=...) makes one on another")

    # ---- operations as a whole ----

    def _has_hooks(self) -> bool:
        """False: none can be registered."""
        return False

    def _register_on_completion_hook(self, hook: Callable[..., Any]) -> None:
        _not_here("_register_on_completion_hook", "there are no hooks for all operations; a Work has "
                                                  "get_future().then(...) for its own")

    def _wait_for_pending_works(self) -> None:
        _not_here("_wait_for_pending_works", "wait for the Works that you have, or call barrier()")

    def _enable_collectives_timing(self) -> None:
        """Changes nothing, as with gloo: operations are not timed."""

    def _get_sequence_number_for_group(self) -> int:
        _not_here("_get_sequence_number_for_group", "numbers of operations are not told; errors name them, and all "
                                                    "ranks' calls are compared")

    def _set_sequence_number_for_group(self) -> None:
        """Changes nothing: every rank counts from its group's first operation, and the numbers are compared."""

    def _start_coalescing(self, device: Any = None) -> None:
        _not_here("_start_coalescing", "_coalescing_manager does it, and knows the engine")

    def _end_coalescing(self, device: Any = None) -> Any:
        _not_here("_end_coalescing", "_coalescing_manager does it, and knows the engine")

    # ---- other groups, and the store ----

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
