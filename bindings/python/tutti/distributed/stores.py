"""Stores with torch.distributed's constructors: a small table that the ranks of a job share."""

import threading
import weakref
from datetime import timedelta
from typing import Any, ClassVar

from tutti import _tutti
from tutti.distributed.constants import default_store_timeout
from tutti.errors import WrongTypeError

Store = _tutti.Store


# torch's Store has these three. They go into each class below, and not into the library's own: that stays
# the same whatever is imported, and its classes take one base only, so there is no place between them.
def _has_extended_api(self: Store) -> bool:
    """append, multi_get, multi_set and queues are to be had: of every store."""
    return True


def _clone(self: Store) -> Store:
    """A store for another thread: this one, which any thread may use."""
    return self


def _barrier(self: Store, key: str, world_size: int, timeout: float | timedelta | None = None) -> None:
    """Until `world_size` callers have come with this key, which serves once. TimeoutError else."""
    if world_size < 1:
        raise ValueError(f"barrier: world_size is {world_size}; at least one must come")
    come = self.add(f"{key}/come", 1)
    if come > world_size:
        raise ValueError(f"barrier: {come} have come to {key!r}, which is for {world_size}; a key serves once")
    if come == world_size:
        self.set(f"{key}/all", b"")
    self.wait([f"{key}/all"], timeout)


class HashStore(_tutti.HashStore):
    """Inside this process, for threads and tests."""

    has_extended_api = _has_extended_api
    clone = _clone
    barrier = _barrier


class PrefixStore(_tutti.PrefixStore):
    """A part of another store: every key k is `<prefix>/k` there."""

    has_extended_api = _has_extended_api
    clone = _clone
    barrier = _barrier

    def __init__(self, prefix: str, store: Store) -> None:
        if store is None:
            raise ValueError("store argument cannot be None")
        if not isinstance(store, Store):
            raise WrongTypeError(f"PrefixStore: store is a Store, not {store!r}")
        super().__init__(prefix, store)

    def set_timeout(self, timeout: float | timedelta) -> None:
        """Another one, for the store below too."""
        self.underlying_store.set_timeout(timeout)
        super().set_timeout(timeout)


class TCPStore(_tutti.TCPStore):
    """Served by one process (`is_master`), reached by the others over TCP; port 0 picks a free one.

    `multi_tenant`: those of this process that would serve on one port share the first one's server, which lives as
    long as one of them. `use_libuv` is taken and changes nothing: there is one kind of server here.
    """

    _tenants: ClassVar["weakref.WeakValueDictionary[int, TCPStore]"] = weakref.WeakValueDictionary()
    _tenants_lock: ClassVar[threading.Lock] = threading.Lock()

    has_extended_api = _has_extended_api
    clone = _clone
    barrier = _barrier

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None, is_master: bool = False,
                 timeout: float | timedelta = default_store_timeout, wait_for_workers: bool = True,
                 multi_tenant: bool = False, master_listen_fd: int | None = None, use_libuv: bool = True,
                 **more: Any) -> None:
        if master_listen_fd is not None:
            raise ValueError("TCPStore: master_listen_fd is not taken; give a port, or 0 for a free one")
        if isinstance(port, int) and not 0 <= port <= 65535:
            raise WrongTypeError(f"TCPStore: {port} is no port")
        if port == 0 and not is_master:
            raise WrongTypeError("TCPStore: a store's user needs the port of its server")
        if world_size is not None and world_size < 0:
            world_size = None  # torch's other way to say that it is not known
        if not (multi_tenant and is_master):
            super().__init__(host_name, port, world_size, is_master, timeout, wait_for_workers, **more)
            return
        with TCPStore._tenants_lock:
            self._landlord = TCPStore._tenants.get(port)  # kept: it serves
            if self._landlord is None:
                super().__init__(host_name, port, world_size, True, timeout, False, **more)
                TCPStore._tenants[self.port] = self
                return
        super().__init__(host_name, port, None, False, timeout, False, **more)

    @property
    def libuvBackend(self) -> bool:
        """False: the server is ours."""
        return False


class FileStore(_tutti.FileStore):
    """In a file, for processes that share a file system. `world_size`: how many will use it; the last of
    them removes the file."""

    has_extended_api = _has_extended_api
    clone = _clone
    barrier = _barrier

    def __init__(self, file_name: str, world_size: int | None = -1, **more: Any) -> None:
        users = None if world_size is None or world_size <= 0 else world_size
        super().__init__(file_name, users, **more)
