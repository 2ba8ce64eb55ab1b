"""The backend in Python alone, for a torch that the compiled part was not built for.

torch lets Python derive from ProcessGroup. Such a group has this one backend for all its tensors, and torch's C++ reaches
those of its operations only that torch hands on to Python. Where that is too little, and torch lets Python derive from
Backend (2.14 and newer), it is one: in a group of several backends and in DETAIL mode.
"""

import threading
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

import tutti

from ._rendezvous import meet
from ._python_base import BackendBase, GroupBase, derives_from_backend
from ._python_work import PythonWork, torchs_errors
from ._reduce_ops import OPS

_OP = dist.ReduceOp.RedOpType
_OPS: dict[Any, tutti.ReduceOp] = {getattr(_OP, name.upper()): getattr(tutti.ReduceOp, name.upper()) for name in OPS}
# Dtypes that tutti has no name for travel as bytes.
_WITHOUT_NAME = {torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.complex32, torch.quint8, torch.qint8, torch.qint32}


def _op(options: Any) -> tutti.ReduceOp:
    if options is None:
        return tutti.ReduceOp.SUM
    kind = options.reduceOp.op if isinstance(options.reduceOp, dist.ReduceOp) else options.reduceOp
    if kind not in _OPS:
        raise ValueError(f"tutti: the Python fallback has no reduce op {kind}; the package tutti-torch has it")
    return _OPS[kind]


def _timeout(options: Any) -> timedelta | None:
    return options.timeout if options is not None and options.timeout > timedelta(0) else None


def _plain(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor as tutti reads and writes it."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise ValueError(f"tutti: {what}: the tensor is {tensor.layout} on {tensor.device}; the Python fallback takes "
                         "dense CPU tensors")
    return tensor.detach()


def _moved(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """The same where its values are not looked at."""
    tensor = _plain(tensor, what)
    if tensor.dtype not in _WITHOUT_NAME:
        return tensor
    if not tensor.is_contiguous():
        raise ValueError(f"tutti: {what}: a tensor of {tensor.dtype} must be contiguous")
    return tensor.reshape(-1).view(torch.uint8)


def _single(tensors: Sequence[torch.Tensor], what: str) -> torch.Tensor:
    if len(tensors) != 1:
        raise ValueError(f"tutti: {what}: one tensor is wanted, {len(tensors)} are given")
    return tensors[0]


class _Operations:
    """A backend or a group of torch whose operations are tutti's. Errors and lifetimes are those of the compiled backend;
    a thread of Python's completes futures."""

    _started: Callable[[PythonWork, bool], PythonWork]  # of what it is: a group or a backend
    _let_go: Callable[[], None]

    def __init__(self, group: tutti.ProcessGroup) -> None:
        super().__init__(group.rank, group.size)  # type: ignore[call-arg]
        self._group, self._name, self._desc = group, "", ""
        self._was_shut_down = False

    # torch keeps these in a group's backends; where this is a group, it has none.

    def getBackendName(self) -> str:  # noqa: N802
        """The name of the backend."""
        return "tutti"

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Torch numbers its groups by names."""
        self._name = name

    def getGroupName(self) -> str:  # noqa: N802
        """The name that torch has given."""
        return self._name

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        """For texts of torch."""
        self._desc = desc

    def getGroupDesc(self) -> str:  # noqa: N802
        """The description that torch has given."""
        return self._desc

    def _get_backend(self, device: Any) -> "_Operations":
        if torch.device(device).type != "cpu":
            raise RuntimeError(f"tutti: this group has no backend for {device}")
        return self

    def _check_open(self) -> None:
        if self._was_shut_down:
            raise dist.DistBackendError(f"tutti: group {self._name!r} was shut down")

    def _run(self, outputs: Sequence[torch.Tensor], start: Callable[..., tutti.Work | None], *arguments: Any,
             collective: bool = True, **options: Any) -> PythonWork:
        self._check_open()
        with torchs_errors():
            work = start(*arguments, **options)
        return self._started(PythonWork([] if work is None else [work], outputs), collective)

    def _call(self, outputs: Sequence[torch.Tensor], start: Callable[..., tutti.Work | None], opts: Any, *arguments: Any,
              **options: Any) -> PythonWork:
        """Starts a collective, with the timeout of torch's options."""
        return self._run(outputs, start, *arguments, **options, timeout=_timeout(opts), async_op=True)

    def _lists(self, lists: Sequence[Sequence[torch.Tensor]], what: str) -> Sequence[torch.Tensor]:
        if len(lists) != 1 or len(lists[0]) != self._group.size:
            raise ValueError(f"tutti: {what}: the list must have a tensor for each of the {self._group.size} ranks")
        return lists[0]

    # ---- one tensor

    def broadcast(self, tensors: Any, opts: Any = None) -> PythonWork:
        """dist.broadcast."""
        view = _moved(_single(tensors, "broadcast"), "broadcast")
        return self._call(tensors, self._group.broadcast, opts, view, opts.rootRank)

    def allreduce(self, tensors: Any, opts: Any = None) -> PythonWork:
        """dist.all_reduce."""
        view = _plain(_single(tensors, "all_reduce"), "all_reduce")
        return self._call(tensors, self._group.all_reduce, opts, view, _op(opts))

    def reduce(self, tensors: Any, opts: Any = None) -> PythonWork:
        """dist.reduce."""
        view = _plain(_single(tensors, "reduce"), "reduce")
        return self._call(tensors, self._group.reduce, opts, view, opts.rootRank, _op(opts))

    # ---- a tensor for each rank

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> PythonWork:
        """dist.all_gather."""
        given = self._lists(outputs, "all_gather")
        views, view = [_moved(one, "all_gather") for one in given], _moved(_single(inputs, "all_gather"), "all_gather")
        return self._call(given, self._group.all_gather_list, opts, views, view)

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> PythonWork:
        """dist.gather."""
        view = _moved(_single(inputs, "gather"), "gather")
        given = self._lists(outputs, "gather") if self._group.rank == opts.rootRank else []
        views = [_moved(one, "gather") for one in given]
        return self._call(given, self._group.gather_list, opts, views or None, view, opts.rootRank)

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> PythonWork:
        """dist.scatter."""
        view = _moved(_single(outputs, "scatter"), "scatter")
        given = self._lists(inputs, "scatter") if self._group.rank == opts.rootRank else []
        views = [_moved(one, "scatter") for one in given]
        return self._call(outputs, self._group.scatter_list, opts, view, views or None, opts.rootRank)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> PythonWork:
        """dist.reduce_scatter."""
        what = "reduce_scatter"
        views = [_plain(one, what) for one in self._lists(inputs, what)]
        return self._call(outputs, self._group.reduce_scatter_list, opts, _plain(_single(outputs, what), what), views,
                          _op(opts))

    def alltoall(self, outputs: Any, inputs: Any, opts: Any = None) -> PythonWork:
        """dist.all_to_all."""
        to, given = [[_moved(one, "all_to_all") for one in self._lists([some], "all_to_all")]
                     for some in (outputs, inputs)]
        return self._call(outputs, self._group.all_to_all_list, opts, to, given)

    # ---- blocks of one tensor

    def _allgather_base(self, output: Any, given: Any, opts: Any = None) -> PythonWork:
        what = "all_gather_into_tensor"
        return self._call([output], self._group.all_gather, opts, _moved(output, what), _moved(given, what))

    def _reduce_scatter_base(self, output: Any, given: Any, opts: Any = None) -> PythonWork:
        what = "reduce_scatter_tensor"
        return self._call([output], self._group.reduce_scatter, opts, _plain(output, what), _plain(given, what), _op(opts))

    def alltoall_base(self, output: Any, given: Any, output_splits: Any, input_splits: Any,
                      opts: Any = None) -> PythonWork:
        """dist.all_to_all_single."""
        what = "all_to_all_single"
        counts = [self._counts(tensor, splits, side) for tensor, splits, side in
                  ((output, output_splits, "output"), (given, input_splits, "input"))]
        return self._call([output], self._group.all_to_all, opts, _moved(output, what), _moved(given, what),
                          output_splits=counts[0], input_splits=counts[1])

    def _counts(self, tensor: torch.Tensor, splits: Sequence[int], side: str) -> list[int]:
        """How many elements (bytes: see `_moved`) each rank's block has."""
        size = self._group.size
        if tensor.dim() == 0:
            raise ValueError(f"tutti: all_to_all_single: the {side} has no dimension that could be split")
        rows = tensor.size(0)
        if not splits:
            if rows % size != 0:
                raise ValueError("tutti: all_to_all_single: Tensor's dim 0 does not divide equally across group size: "
                                 f"the {side} has {rows} rows, and there are {size} ranks")
            splits = [rows // size] * size
        if len(splits) != size:
            raise ValueError("tutti: all_to_all_single: Number of tensor splits not equal to group size: "
                             f"{len(splits)} for the {side}, and there are {size} ranks")
        if sum(splits) != rows or min(splits) < 0:
            raise ValueError("tutti: all_to_all_single: Split sizes doesn't match total dim 0 size: the "
                             f"{side} has {rows} rows")
        row = _moved(tensor, "all_to_all_single").numel() // rows if rows else 0
        return [row * one for one in splits]

    # ---- several tensors: one operation for each

    def _each(self, parts: Sequence[PythonWork], outputs: Sequence[torch.Tensor]) -> PythonWork:
        if all(part is parts[0] for part in parts):  # that of start_coalescing
            return parts[0]
        return PythonWork([work for part in parts for work in part.works], outputs)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> PythonWork:
        """dist.all_reduce_coalesced."""
        if not tensors:
            raise ValueError("tutti: all_reduce: the list of tensors is empty")
        return self._each([self.allreduce([one], opts) for one in tensors], tensors)

    def allgather_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> PythonWork:
        """Several dist.all_gather, as one Work."""
        parts = [self.allgather([[row[place] for row in outputs]], [one], opts) for place, one in enumerate(inputs)]
        return self._each(parts, [one for row in outputs for one in row])

    def allgather_into_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> PythonWork:
        """Several dist.all_gather_into_tensor, as one Work."""
        pairs = zip(outputs, inputs, strict=True)
        return self._each([self._allgather_base(to, given, opts) for to, given in pairs], outputs)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> PythonWork:
        """Several dist.reduce_scatter_tensor, as one Work."""
        pairs = zip(outputs, inputs, strict=True)
        return self._each([self._reduce_scatter_base(to, given, opts) for to, given in pairs], outputs)

    # ---- point to point and the rest

    def send(self, tensors: Any, to: int, tag: int) -> PythonWork:
        """dist.isend."""
        return self._run(tensors, self._group.isend, _moved(_single(tensors, "send"), "send"), to, tag=tag, collective=False)

    def recv(self, tensors: Any, sender: int, tag: int) -> PythonWork:
        """dist.irecv."""
        view = _moved(_single(tensors, "recv"), "recv")
        if sender < 0:
            raise ValueError(f"tutti: recv: the sender must be a rank of the group, not {sender}")
        return self._run(tensors, self._group.irecv, view, sender, tag=tag, collective=False)

    def recv_anysource(self, tensors: Any, tag: int) -> PythonWork:
        """dist.irecv from any rank."""
        view = _moved(_single(tensors, "recv"), "recv")
        return self._run(tensors, self._group.irecv, view, None, tag=tag, collective=False)

    def barrier(self, opts: Any = None) -> PythonWork:
        """dist.barrier."""
        return self._call([], self._group.barrier, opts)

    def abort(self) -> None:
        """Break the group on all ranks: operations that run fail there."""
        self._check_open()
        self._group.abort("torch's abort() was called")

    def shutdown(self) -> None:
        """Leave the group. Operations that run go on; later calls are refused."""
        self._was_shut_down = True
        self._group.close()
        self._let_go()

    # Torch's names of these from 2.13 on.
    all_gather_single, reduce_scatter_single = _allgather_base, _reduce_scatter_base
    all_to_all_single = alltoall_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced


class ProcessGroupTutti(_Operations, GroupBase):
    """A group of its own."""


class BackendTutti(_Operations, BackendBase):
    """A backend beside others."""


_asked = threading.local()  # `several`: the group that this thread makes has several backends


def make_backend(given: Any, options: Any, backend: str) -> ProcessGroupTutti | BackendTutti:
    """Torch calls it for each group."""
    in_detail = dist.get_debug_level() == dist.DebugLevel.DETAIL
    with torchs_errors():
        group = meet(given, backend)
    if not (derives_from_backend() and (in_detail or getattr(_asked, "several", False))):
        return ProcessGroupTutti(group)
    made = BackendTutti(group)
    if in_detail:
        made.keep()
    return made


class _Config(distributed_c10d.BackendConfig):  # type: ignore[misc]
    """Torch makes it of a backend's name, for each group. A group in Python would silently be the only
    backend of all its devices."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        names = set(self.get_device_backend_map().values())
        _asked.several = len(names) > 1
        if "tutti" in names and _asked.several and not derives_from_backend():
            raise ValueError(f"tutti: {str(backend)!r} names several backends, and without its compiled part tutti "
                             "must be the only one of a group, or torch 2.14 or newer: pip install tutti-torch")


def begin(reason: str) -> None:
    """Says once that this form is taken, and why."""
    distributed_c10d.BackendConfig = _Config
    warnings.warn(f"{reason}. Until then tutti.torch takes its Python fallback: the operations that bindings/torch/README.md "
                  "lists, and some microseconds more for each", stacklevel=3)
