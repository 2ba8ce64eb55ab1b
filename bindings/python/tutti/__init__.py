"""Collective communication on shared memory and TCP.

    import numpy as np
    import tutti

    world = tutti.init_process_group()      # RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    values = np.ones(4, np.float32)
    world.all_reduce(values)                # in place
    work = world.all_reduce(values, tutti.ReduceOp.MAX, async_op=True)
    work.wait(timeout=5)

`tutti.distributed` has the words of torch.distributed instead; `tutti.rank0` and `tutti.multiprocessing` start ranks from
a program. Each is imported when it is first used.
"""

from tutti._tutti import (ANY_SOURCE, NO_RANK, Config, FileStore, HashStore, LogLevel, Message, PrefixStore,
                          ProcessGroup, ReduceOp, Store, TCPStore, Work, __version__,
                          available_backends, init_process_group, is_available, is_initialized,
                          job_secret, register_backend, set_log_sink)
from tutti.errors import (BackendError, DisagreementError, Error, InvalidArgument, NetworkError,
                          StoreError, TimeoutError)

__all__ = [
    "ANY_SOURCE", "BackendError", "Config", "DisagreementError", "Error", "FileStore", "HashStore",
    "InvalidArgument", "LogLevel", "Message", "NO_RANK", "NetworkError", "PrefixStore", "ProcessGroup", "ReduceOp",
    "Store", "StoreError", "TCPStore", "TimeoutError", "Work", "__version__", "as_completed",
    "available_backends", "init_process_group", "is_available", "is_initialized", "job_secret",
    "register_backend", "set_log_sink",
]

TYPE_CHECKING = False  # as checkers of types know it; `typing` itself takes longer to import than all of this
if TYPE_CHECKING:
    from tutti import distributed, log, multiprocessing, rank0
    from tutti._awaiting import as_completed
else:
    _SUBMODULES = ("distributed", "multiprocessing", "rank0", "log")

    def __getattr__(name):
        # asyncio takes longer to import than all of this, too.
        if name == "as_completed":
            from tutti._awaiting import as_completed
            return as_completed
        if name in _SUBMODULES:
            from importlib import import_module
            return import_module(f"tutti.{name}")
        raise AttributeError(f"module 'tutti' has no attribute '{name}'")
