"""Refuses computations on devices of some processes only, before they are compiled."""

import functools
from typing import Any

import jax
from jax._src import compiler, distributed


def check_computations() -> None:
    """From now on. jaxlib does not say which processes belong to a communicator that it makes: other processes could come
    with another set of devices, and both would get sums of all."""
    original = compiler.compile_or_get_cached

    @functools.wraps(original)
    def checked(backend: Any, computation: Any, devices: Any, *rest: Any, **options: Any) -> Any:
        count = distributed.global_state.num_processes
        processes = sorted({device.process_index for device in devices.flat})
        if (backend.platform == "cpu" and distributed.global_state.client is not None
                and jax.config.jax_cpu_collectives_implementation == "mpi" and 1 < len(processes) < count):
            raise ValueError(f"the computation is on devices of the processes {', '.join(map(str, processes))} only, and tutti.jax "
                             f"needs all {count} processes of the job, or one alone: make the mesh of all of jax.devices()")
        return original(backend, computation, devices, *rest, **options)

    compiler.compile_or_get_cached = checked
