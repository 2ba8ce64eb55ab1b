"""Ray's collectives on tutti: the functions of `ray.util.collective` with the backend "TUTTI".

    import tutti.ray
    from ray.util import collective

    tutti.ray.register()      # in each actor, and in a driver that calls create_collective_group
    collective.init_collective_group(world_size, rank, "TUTTI", "gradients")
    collective.allreduce(array, "gradients")

Importing this does not import Ray; `register` does.
"""

import threading

__all__ = ["register"]

BACKEND = "TUTTI"
TESTED = "2.56.0 to 2.60.0"
_lock = threading.Lock()  # Ray refuses a second registration, also one by another thread at the same time


def register() -> None:
    """Makes the backend "TUTTI" known to Ray in this process, for the rest of the process.

    Call it in each actor before its first call on a group, and in the driver before `create_collective_group`. To
    call it again does nothing. Any thread may call it. It contacts no other process.

    ImportError: Ray is not installed, or its version has no such backends. ValueError: the name belongs to another
    class.
    """
    with _lock:
        try:
            import ray
        except ImportError as problem:
            raise ImportError(f"tutti.ray needs Ray {TESTED} (the versions that were tested): pip install ray") from problem
        try:
            from ray.util.collective.backend_registry import _global_registry, register_collective_backend

            from ._group import TuttiGroup
            missing = sorted(getattr(TuttiGroup, "__abstractmethods__"))
        except ImportError as problem:
            raise ImportError(f"tutti.ray does not work with Ray {ray.__version__}; it was tested with Ray {TESTED}. "
                              f"{problem}") from problem
        if missing:
            raise ImportError(f"tutti.ray does not work with Ray {ray.__version__}, whose groups also have "
                              f"{', '.join(missing)}; it was tested with Ray {TESTED}")
        if not _global_registry.is_registered(BACKEND):
            register_collective_backend(BACKEND, TuttiGroup)
        elif _global_registry.get(BACKEND) is not TuttiGroup:
            raise ValueError(f"tutti.ray: the backend {BACKEND} of Ray is registered already, for the class "
                             f"{_global_registry.get(BACKEND).__qualname__}")
