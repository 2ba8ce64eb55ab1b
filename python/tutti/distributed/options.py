"""The option structs of torch.distributed's groups, and the methods that take them.

`group.allreduce([tensor], AllreduceOptions())` and its kin return a Work; ranks in them are the group's.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from tutti.distributed.process_group import ProcessGroup
from tutti.distributed.operators import RedOpType, low_of
from tutti.distributed.work import Work, Works

_UNSET = timedelta(milliseconds=-1)


@dataclass
class AllreduceOptions:
    reduceOp: Any = RedOpType.SUM
    timeout: timedelta = _UNSET
    asyncOp: bool = True


@dataclass
class AllreduceCoalescedOptions(AllreduceOptions):
    pass


@dataclass
class BroadcastOptions:
    rootRank: int = 0
    rootTensor: int = 0
    timeout: timedelta = _UNSET
    asyncOp: bool = True


@dataclass
class ReduceOptions:
    reduceOp: Any = RedOpType.SUM
    rootRank: int = 0
    rootTensor: int = 0
    timeout: timedelta = _UNSET
    asyncOp: bool = True


@dataclass
class AllgatherOptions:
    timeout: timedelta = _UNSET
    asyncOp: bool = True


@dataclass
class GatherOptions:
    rootRank: int = 0
    timeout: timedelta = _UNSET
    asyncOp: bool = True


@dataclass
class ScatterOptions:
    rootRank: int = 0
    timeout: timedelta = _UNSET
    asyncOp: bool = True


@dataclass
class ReduceScatterOptions:
    reduceOp: Any = RedOpType.SUM
    timeout: timedelta = _UNSET
    asyncOp: bool = True


@dataclass
class AllToAllOptions:
    timeout: timedelta = _UNSET
    asyncOp: bool = True


@dataclass
class BarrierOptions:
    device_ids: list[int] = field(default_factory=list)
    timeout: timedelta = _UNSET
    device: Any = None
    asyncOp: bool = True


def _timeout(options: Any) -> timedelta | None:
    return None if options is None or options.timeout == _UNSET else options.timeout


def _one(tensors: Any, what: str) -> Any:
    if not isinstance(tensors, (list, tuple)):
        return tensors
    if len(tensors) != 1:
        raise ValueError(f"{what} takes a list of one tensor, not of {len(tensors)}")
    return tensors[0]


def _op(options: Any) -> tuple[Any, Any]:
    return low_of(RedOpType.SUM if options is None else getattr(options, "reduceOp", options))


def allreduce(self: ProcessGroup, tensors: Any, opts: Any = None) -> Work:
    low, factor = _op(opts)
    timeout = _timeout(opts) if isinstance(opts, AllreduceOptions) else None
    return Work(self._low.all_reduce(_one(tensors, "allreduce"), low, factor=factor, timeout=timeout, async_op=True))


def allreduce_coalesced(self: ProcessGroup, tensors: Any, opts: Any = None) -> Work:
    return Works([allreduce(self, [tensor], opts) for tensor in tensors], list(tensors))


def broadcast(self: ProcessGroup, tensors: Any, opts: Any = None) -> Work:
    root = opts.rootRank if isinstance(opts, BroadcastOptions) else int(opts or 0)
    timeout = _timeout(opts) if isinstance(opts, BroadcastOptions) else None
    return Work(self._low.broadcast(_one(tensors, "broadcast"), root, timeout=timeout, async_op=True))


def reduce(self: ProcessGroup, tensors: Any, opts: Any = None) -> Work:
    opts = opts or ReduceOptions()
    low, factor = _op(opts)
    return Work(self._low.reduce(_one(tensors, "reduce"), opts.rootRank, low, factor=factor, timeout=_timeout(opts),
                                 async_op=True))


def allgather(self: ProcessGroup, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
    return Work(self._low.all_gather_list(_one(output_tensors, "allgather"), _one(input_tensors, "allgather"),
                                          timeout=_timeout(opts), async_op=True))


def _allgather_base(self: ProcessGroup, output: Any, input: Any, opts: Any = None) -> Work:
    return Work(self._low.all_gather(output, input, timeout=_timeout(opts), async_op=True))


def gather(self: ProcessGroup, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
    opts = opts or GatherOptions()
    outputs = _one(output_tensors, "gather") if output_tensors else None
    return Work(self._low.gather_list(outputs, _one(input_tensors, "gather"), opts.rootRank, timeout=_timeout(opts),
                                      async_op=True))


def scatter(self: ProcessGroup, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
    opts = opts or ScatterOptions()
    inputs = _one(input_tensors, "scatter") if input_tensors else None
    return Work(self._low.scatter_list(_one(output_tensors, "scatter"), inputs, opts.rootRank,
                                       timeout=_timeout(opts), async_op=True))


def reduce_scatter(self: ProcessGroup, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
    opts = opts or ReduceScatterOptions()
    low, factor = _op(opts)
    return Work(self._low.reduce_scatter_list(_one(output_tensors, "reduce_scatter"),
                                              _one(input_tensors, "reduce_scatter"), low, factor=factor,
                                              timeout=_timeout(opts), async_op=True))


def _reduce_scatter_base(self: ProcessGroup, output: Any, input: Any, opts: Any = None) -> Work:
    opts = opts or ReduceScatterOptions()
    low, factor = _op(opts)
    return Work(self._low.reduce_scatter(output, input, low, factor=factor, timeout=_timeout(opts), async_op=True))


def alltoall(self: ProcessGroup, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Work:
    return Work(self._low.all_to_all_list(output_tensors, input_tensors, timeout=_timeout(opts), async_op=True))


def barrier(self: ProcessGroup, opts: Any = None) -> Work:
    return Work(self._low.barrier(timeout=_timeout(opts), async_op=True))


def send(self: ProcessGroup, tensors: Any, dstRank: int, tag: int = 0) -> Work:
    return Work(self._low.isend(_one(tensors, "send"), dstRank, tag=tag))


def recv(self: ProcessGroup, tensors: Any, srcRank: int, tag: int = 0) -> Work:
    return Work(self._low.irecv(_one(tensors, "recv"), srcRank, tag=tag))


def recv_anysource(self: ProcessGroup, tensors: Any, tag: int = 0) -> Work:
    return Work(self._low.irecv(_one(tensors, "recv_anysource"), None, tag=tag))


for _method in (allreduce, allreduce_coalesced, broadcast, reduce, allgather, _allgather_base, gather, scatter,
                reduce_scatter, _reduce_scatter_base, alltoall, barrier, send, recv, recv_anysource):
    setattr(ProcessGroup, _method.__name__, _method)
