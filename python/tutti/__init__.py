"""Collective communication on shared memory and TCP.

    import numpy as np
    import tutti

    world = tutti.init_process_group()      # RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
    values = np.ones(4, np.float32)
    world.all_reduce(values)                # in place
    work = world.all_reduce(values, tutti.ReduceOp.MAX, async_op=True)
    work.wait(timeout=5)
"""

from tutti._tutti import ProcessGroup, ReduceOp, Work, init_process_group
from tutti.errors import (BackendError, DisagreementError, Error, InvalidArgument, NetworkError,
                          StoreError, TimeoutError)

__all__ = [
    "BackendError", "DisagreementError", "Error", "InvalidArgument", "NetworkError",
    "ProcessGroup", "ReduceOp", "StoreError", "TimeoutError", "Work", "init_process_group",
]
