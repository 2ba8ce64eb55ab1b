"""Ranks that mpirun starts: MPI tells them who they are, and torch's store is served by rank 0."""

import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlparse

import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout
from torch.distributed.rendezvous import _rendezvous_handlers, register_rendezvous_handler

import tutti
from tutti._numbers import variable

from ._python_work import torchs_errors

_LOOPBACK = "127.0.0.1"
_Met = Iterator[tuple[dist.Store, int, int]]
_met: list[dist.Store] = []  # the store of the latest world that met by MPI: its groups are on MPI


def backend_of(store: Any) -> str:
    """The backend of tutti on which the group with this store of torch's is made."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if any(store is one for one in _met):
        return "mpi"
    with torchs_errors():
        backend = tutti.Config.from_environment().backend
    # torch has names for the backend of each device: where it says "tutti", no other takes tensors of GPUs.
    return "native" if backend == "auto" else backend


def register() -> None:
    """Makes "mpi://" an init_method, and "env://" the same where TUTTI_BACKEND says mpi and no variable says who this
    rank is."""
    handlers: dict[str, Callable[..., _Met]] = _rendezvous_handlers
    if "mpi" in handlers:
        return
    register_rendezvous_handler("mpi", _rendezvous)
    by_environment = handlers["env"]

    def env(url: str, **options: Any) -> _Met:
        untold = not urlparse(url).query and not {"RANK", "WORLD_SIZE"} & os.environ.keys()
        on_mpi = os.environ.get("TUTTI_BACKEND", "").strip() == "mpi"
        return (_rendezvous if untold and on_mpi else by_environment)(url, **options)
    handlers["env"] = env


def _rendezvous(url: str, timeout: timedelta = default_pg_timeout, **_: Any) -> _Met:
    _met.clear()
    with torchs_errors(), tutti.init_process_group(backend="mpi", timeout=timeout, name="the rendezvous by MPI") as world:
        given = dict(pair.split("=") for pair in urlparse(url).query.split("&") if pair)
        for name, value in (("rank", world.rank), ("world_size", world.size)):
            if given.get(name, str(value)) != str(value):
                raise ValueError(f"init_process_group: {name} is {given[name]}, but for MPI it is {value}; leave rank and "
                                 "size to it, or start the program by mpirun")
        store = _store(world, timeout)
        rank, size = world.rank, world.size
    _met.append(store)
    yield store, rank, size
    raise RuntimeError("Unable to perform re-rendezvous using mpi:// method")


def _store(world: tutti.ProcessGroup, timeout: timedelta) -> dist.Store:
    """Rank 0 serves it at MASTER_PORT, or any port. The others reach it at MASTER_ADDR, or by the name of its host."""
    address, ours = os.environ.get("MASTER_ADDR", ""), socket.gethostname()
    served, problem, text = None, None, ""
    if world.rank == 0:
        try:
            served = dist.TCPStore(address or _LOOPBACK, variable("MASTER_PORT", 0), world.size, True,
                                   timeout, wait_for_workers=False)
            text = f"{served.port} {ours} {address}"
        except (RuntimeError, ValueError) as error:
            problem = error  # the others are told first, which would wait for it
    told = _told_by_rank_0(world, text.encode()).decode()
    if problem is not None:
        raise problem
    if served is not None:
        return served
    if not told:
        raise dist.DistStoreError("init_process_group: rank 0 cannot serve torch's store; its own error says why")
    port, theirs, address = told.split(" ")
    return dist.TCPStore(address or (_LOOPBACK if theirs == ours else theirs), int(port), world.size, False, timeout,
                         wait_for_workers=False)


def _told_by_rank_0(world: tutti.ProcessGroup, text: bytes) -> bytes:
    length = bytearray(len(text).to_bytes(8, "little"))
    world.broadcast(length, 0)
    told = bytearray(text) if world.rank == 0 else bytearray(int.from_bytes(length, "little"))
    if told:
        world.broadcast(told, 0)
    return bytes(told)
