"""The option structs of torch.distributed's groups, which the methods of a group take."""

from datetime import timedelta
from typing import Any

from tutti.distributed.operators import RedOpType

UNSET_TIMEOUT = timedelta(milliseconds=-1)


class Options:
    """Fields by name, each with its default; to be set one by one, or given by name."""

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
    reduceOp: Any = RedOpType.SUM


class AllreduceCoalescedOptions(AllreduceOptions):
    pass


class BroadcastOptions(Options):
    rootRank = 0
    rootTensor = 0


class ReduceOptions(Options):
    reduceOp: Any = RedOpType.SUM
    rootRank = 0
    rootTensor = 0


class AllgatherOptions(Options):
    pass


class GatherOptions(Options):
    rootRank = 0


class ScatterOptions(Options):
    rootRank = 0


class ReduceScatterOptions(Options):
    reduceOp: Any = RedOpType.SUM


class AllToAllOptions(Options):
    pass


class BarrierOptions(Options):
    device_ids: Any = ()
    device: Any = None
