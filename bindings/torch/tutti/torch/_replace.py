"""Makes torch.distributed take tutti where a program asks for Gloo or MPI. `python -m tutti.torch` does so."""

import functools
import inspect
import multiprocessing.spawn
import os
import sys
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

import tutti

_OURS = ("gloo", "mpi")


def named(backend: Any) -> Any:
    """The `backend` that a program gives, with tutti in place of Gloo and MPI."""
    if not isinstance(backend, str):
        return backend
    return ",".join(device + colon + ("tutti" if name.lower() in _OURS else name)
                    for device, colon, name in _pairs(backend))


def names_mpi(backend: Any) -> bool:
    """True if MPI is asked for."""
    return isinstance(backend, str) and any(name.lower() == "mpi" for _, _, name in _pairs(backend))


def _pairs(backend: str) -> list[tuple[str, str, str]]:
    return [one.rpartition(":") for one in backend.split(",")]


def _replacing(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, which has an argument `backend`."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        try:
            bound = signature.bind(*given, **options)
        except TypeError:
            return function(*given, **options)  # which says so itself
        backend = bound.arguments.get("backend")
        if "backend" in bound.arguments:
            bound.arguments["backend"] = named(backend)
        if "init_method" in signature.parameters and names_mpi(backend):
            for name in ("store", "rank", "world_size"):  # MPI tells them, as with torch's own backend "mpi"
                bound.arguments.pop(name, None)
            bound.arguments["init_method"] = "mpi://"
        return function(*bound.args, **bound.kwargs)
    return called


def is_mpi_available() -> bool:
    """True where mpirun or mpiexec has started this process, or TUTTI_BACKEND says mpi. An MPI that is only
    installed is not told: programs that choose a backend by this function would take it under any launcher."""
    chosen = os.environ.get("TUTTI_BACKEND") == "mpi"
    started = "RANK" not in os.environ and any(name in os.environ for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK"))
    return (chosen or started) and tutti.is_available("mpi")


class _InChildren:
    """Unpickled in a process that multiprocessing starts, before it imports the program."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return replace_backends, ()


def replace_backends() -> None:
    """From now on tutti is the backend of CPU tensors where a program names Gloo, MPI or nothing, in this process and in
    those that it starts by multiprocessing. Once; before the program imports torch.distributed's functions."""
    if dist.Backend.default_device_backend_map.get("cpu") == "tutti":
        return
    dist.Backend.default_device_backend_map["cpu"] = "tutti"
    for name in ("init_process_group", "new_group", "is_mpi_available"):
        former = getattr(distributed_c10d, name)
        function = is_mpi_available if name == "is_mpi_available" else _replacing(former)
        for module in list(sys.modules.values()):  # DeviceMesh's has them, too, and others may
            if vars(module).get(name) is former:
                setattr(module, name, function)
    of_torch = multiprocessing.spawn.get_preparation_data

    def preparation_data(name: str) -> dict[str, Any]:
        return {**of_torch(name), "tutti.torch": _InChildren()}

    multiprocessing.spawn.get_preparation_data = preparation_data
