"""How the ranks of a group meet by torch's store, in Python."""

import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

import tutti


class _Exchange:
    """Tells every rank the bytes of all by torch's store."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._store, self._rank, self._size, self._timeout = store, rank, size, timeout
        self._deadline = time.monotonic() + timeout.total_seconds()
        if size == 1:
            return
        # A store may outlive its group. Each rank counts its own turns, so the keys of one are new.
        self._prefix = f"tutti/{store.add(f'tutti/turns/{rank}', 1)}"

    def __call__(self, name: str, mine: bytes) -> list[bytes]:
        if self._size == 1:
            return [mine]  # torch's store may end while a rank makes a group of its own
        keys = [f"{self._prefix}/{name}/{rank}" for rank in range(self._size)]
        self._store.set(keys[self._rank], mine)
        try:
            self._store.wait(keys, timedelta(seconds=max(self._deadline - time.monotonic(), 0.001)))
        except (RuntimeError, dist.DistStoreError):
            missing = [str(rank) for rank, key in enumerate(keys) if not self._store.check([key])]
            if not missing:
                raise
            raise TimeoutError(f"rank {', rank '.join(missing)} did not come to the group within "
                               f"{self._timeout.total_seconds():g} s; see whether all ranks were started, and what "
                               "the missing ones wait for") from None
        return [self._store.get(key) for key in keys]


def _host_of(store: Any) -> str | None:
    """Where the store is served: over that way the ranks reach each other, too. None: a file or memory."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    return store.host or None if isinstance(store, dist.TCPStore) else None


def meet(given: Any, backend: str) -> tutti.ProcessGroup:
    """The group of tutti, on that backend of it, that torch's options (`_DistributedBackendOptions`) ask for."""
    if given.timeout <= timedelta(0):
        raise ValueError("tutti: the timeout must be positive")
    world = not given.global_ranks_in_group
    # torch numbers the ranks as MPI_COMM_WORLD does.
    members = list(given.global_ranks_in_group) if backend == "mpi" and not world else None
    group = tutti.init_process_group(
        backend=backend, backend_options=members,
        rank=given.group_rank, world_size=given.group_size, timeout=given.timeout,
        master_addr=_host_of(given.store), name="world" if world or not given.group_id else given.group_id,
        exchange=_Exchange(given.store, given.group_rank, given.group_size, given.timeout),
        exchange_is_private=False)  # anybody can write to torch's store
    group.check_objects("tutti.torch: torch's object operations")
    return group
