"""Makes torch.distributed take tutti where a program asks for Gloo. `python -m tutti.torch` does so."""

import functools
import multiprocessing.spawn
import sys
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d


def named(backend: Any) -> Any:
    """What a program gives as `backend`, with tutti in place of Gloo."""
    if not isinstance(backend, str):
        return backend
    pairs = [one.rpartition(":") for one in backend.split(",")]
    return ",".join(device + colon + ("tutti" if name.lower() == "gloo" else name) for device, colon, name in pairs)


def _replacing(function: Callable[..., Any], position: int) -> Callable[..., Any]:
    """`function`, whose argument `backend` may stand at that position."""
    @functools.wraps(function)
    def called(*given: Any, **options: Any) -> Any:
        if "backend" in options:
            options["backend"] = named(options["backend"])
        elif len(given) > position:
            given = *given[:position], named(given[position]), *given[position + 1:]
        return function(*given, **options)
    return called


class _InChildren:
    """Unpickled in a process that multiprocessing starts, before it imports the program."""

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        return replace_gloo, ()


def replace_gloo() -> None:
    """From now on tutti is the backend of CPU tensors where a program names Gloo or nothing, in this process and in
    those that it starts by multiprocessing. Once; before the program imports torch.distributed's functions."""
    if dist.Backend.default_device_backend_map.get("cpu") == "tutti":
        return
    dist.Backend.default_device_backend_map["cpu"] = "tutti"
    for name, position in (("init_process_group", 0), ("new_group", 2)):
        former = getattr(distributed_c10d, name)
        function = _replacing(former, position)
        for module in list(sys.modules.values()):  # DeviceMesh's has them, too, and others may
            if vars(module).get(name) is former:
                setattr(module, name, function)
    of_torch = multiprocessing.spawn.get_preparation_data

    def preparation_data(name: str) -> dict[str, Any]:
        return {**of_torch(name), "tutti.torch": _InChildren()}

    multiprocessing.spawn.get_preparation_data = preparation_data
