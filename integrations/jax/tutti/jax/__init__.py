"""Lets JAX's collectives on CPUs run on tutti. Import it before jax, or start the program by `python -m tutti.jax program.py`:

    import tutti.jax
    import jax

    jax.distributed.initialize()      # under tuttirun without arguments

It imports jax, and sets jax_cpu_collectives_implementation in this process only: its children are as without it. The
processes of the job find each other by JAX's coordination service, also where another launcher has started them. Each
process has one CPU device.

Errors of tutti come as JAX's own exceptions, with tutti's text. ImportError if jax was imported before, or in a version
that was not tried.
"""

from tutti.jax import _library

_library.load()

from tutti.jax import _cluster, _devices, _job  # noqa: E402: these import jax

_job.register(_library.loaded())
_cluster.register()
_devices.check_computations()
