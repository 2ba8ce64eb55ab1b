"""The option structs of torch.distributed's groups, which the methods of a group take."""

from datetime import timedelta
from typing import Any

from tutti.distributed.operators import RedOpType

UNSET_TIMEOUT = timedelta(milliseconds=-1)


class Options:
    """Fields by name, each with its default; to be set one by one, or given by name. `timeout`: of the operation;
    unless set the group's. `asyncOp` changes nothing: the methods of a group do not wait. AttributeError for a field
    that there is not."""

    timeout: timedelta = UNSET_TIMEOUT
    asyncOp: bool = True

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"{type(self).__name__} has no field {name!r}")
        super().__setattr__(name, value)


class AllreduceOptions(Options):
    """Of allreduce: `reduceOp`, SUM unless set."""

    reduceOp: Any = RedOpType.SUM


class AllreduceCoalescedOptions(AllreduceOptions):
    """Of allreduce_coalesced: `reduceOp`, SUM unless set."""


class BroadcastOptions(Options):
    """Of broadcast: `rootRank`, a rank of the group. `rootTensor` is 0: a list holds one tensor."""

    rootRank = 0
    rootTensor = 0


class ReduceOptions(Options):
    """Of reduce: `reduceOp`, SUM unless set, and `rootRank`, a rank of the group. `rootTensor` is 0: a list holds
    one tensor."""

    reduceOp: Any = RedOpType.SUM
    rootRank = 0
    rootTensor = 0


class AllgatherOptions(Options):
    """Of all forms of allgather: `timeout`."""


class GatherOptions(Options):
    """Of gather: `rootRank`, a rank of the group."""

    rootRank = 0


class ScatterOptions(Options):
    """Of scatter: `rootRank`, a rank of the group."""

    rootRank = 0


class ReduceScatterOptions(Options):
    """Of all forms of reduce_scatter: `reduceOp`, SUM unless set."""

    reduceOp: Any = RedOpType.SUM


class AllToAllOptions(Options):
    """Of alltoall and all_to_all_single: `timeout`."""


class BarrierOptions(Options):
    """Of barrier: `device_ids` and `device` are kept and change nothing."""

    device_ids: Any = ()
    device: Any = None
