"""The methods of a group, as torch.distributed's have them: `group.allreduce([tensor], AllreduceOptions())`.

Each starts an operation and returns its Work, unless it says that it blocks; ranks are the group's. There are two
forms: lists of one tensor with a struct of options, and plain tensors with the operation, the root and the timeout.

Errors: InvalidArgument (a ValueError) or TypeError at the call for what is wrong with it; then nothing was sent.
Everything else comes from the Work: DisagreementError, TimeoutError, NetworkError.
Threads: any, but all ranks must start the group's operations in one order.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tutti import _tutti
from tutti._times import Timeout
from tutti.distributed.operators import RedOpType, low_of
from tutti.distributed.options import UNSET_TIMEOUT, Options
from tutti.distributed.shapes import check_blocks, check_each, check_exchange, check_whole
from tutti.distributed.tensors import is_tensor, split_counts, splits_of
from tutti.distributed.work import Work
from tutti.errors import InvalidArgument


def _limit(opts: Any, timeout: Timeout) -> Any:
    """The timeout that was given, in either form; None is the group's."""
    given = timeout if timeout is not None else opts.timeout if isinstance(opts, Options) else \
        opts if isinstance(opts, timedelta) else None
    return None if given == UNSET_TIMEOUT else given


def _op(opts: Any, op: Any) -> tuple[Any, Any]:
    """The operation in either form, as the C++ face wants it."""
    if op is None:
        op = RedOpType.SUM if opts is None or isinstance(opts, timedelta) else getattr(opts, "reduceOp", opts)
    return low_of(op)


def _root(opts: Any, root: Any) -> int:
    """The root in either form."""
    given = root if root is not None else getattr(opts, "rootRank", opts)
    return 0 if given is None else int(given)


def _one(tensors: Any, what: str) -> Any:
    """The tensor of a list of one, or the one that was given."""
    if is_tensor(tensors) or not isinstance(tensors, (list, tuple)):
        return tensors
    if len(tensors) != 1:
        raise InvalidArgument(f"{what} takes a list of one tensor, not of {len(tensors)}")
    return tensors[0]


def _row(tensors: Any, what: str) -> Any:
    """The tensors of a list of one list, or of the list that was given."""
    return _one(tensors, what) if len(tensors) == 1 and not is_tensor(tensors[0]) else tensors


class GroupMethods:
    """The operations of a ProcessGroup, as its methods."""

    __slots__ = ()

    _low: _tutti.ProcessGroup

    def allreduce(self, tensors: Any, opts: Any = None, timeout: Timeout = None, *, op: Any = None) -> Work:
        """Combine the tensors of all ranks, element by element, into each of them, in place."""
        low, factor = _op(opts, op)
        return Work(self._low.all_reduce(_one(tensors, "allreduce"), low, factor=factor, timeout=_limit(opts, timeout),
                                         async_op=True))

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Work:
        """allreduce of each tensor of a list, of one dtype, in one operation."""
        low, factor = _op(opts, None)
        return Work(self._low.all_reduce_coalesced(tensors, low, factor=factor, timeout=_limit(opts, None),
                                                   async_op=True))

    def broadcast(self, tensors: Any, opts: Any = None, timeout: Timeout = None, *, root: Any = None) -> Work:
        """Copy the tensor of the root (0 unless said) into everybody's."""
        return Work(self._low.broadcast(_one(tensors, "broadcast"), _root(opts, root), timeout=_limit(opts, timeout),
                                        async_op=True))

    def reduce(self, tensors: Any, opts: Any = None, op: Any = None, timeout: Timeout = None, *,
               root: Any = None) -> Work:
        """Combine the tensors of all ranks into that of the root (0 unless said); the others' stay as they are."""
        low, factor = _op(opts if isinstance(opts, Options) else None, op)
        return Work(self._low.reduce(_one(tensors, "reduce"), _root(opts, root), low, factor=factor,
                                     timeout=_limit(opts, timeout), async_op=True))

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None, *,
                  timeout: Timeout = None) -> Work:
        """Put the tensor of rank r into the r-th output, on every rank. Sizes may differ between ranks."""
        outputs, tensor = _row(output_tensors, "allgather"), _one(input_tensors, "allgather")
        check_blocks("allgather", outputs, tensor)
        return Work(self._low.all_gather_list(outputs, tensor, timeout=_limit(opts, timeout), async_op=True))

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Work:
        """Put the inputs of all ranks, one after the other, into everybody's output."""
        check_whole("all_gather_single", output, input, self._low.size)
        return Work(self._low.all_gather(output, input, timeout=_limit(opts, None), async_op=True))

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        """all_gather_single of each pair of an output and an input, in one operation."""
        check_each("all_gather_single_coalesced", output_lists, input_list, self._low.size)
        return Work(self._low.all_gather_coalesced(output_lists, input_list, timeout=_limit(opts, None), async_op=True))

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, output_lists: Any, input_list: Any, opts: Any = None) -> Work:
        """allgather of each tensor of a list: input j of rank r lands in `output_lists[r][j]`."""
        return self.all_gather_single_coalesced([tensor for row in output_lists for tensor in row], input_list, opts)

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Timeout = None, *,
               root: Any = None) -> Work:
        """Put the tensor of rank r into the r-th output on the root (0 unless said); elsewhere the outputs are an empty
        list."""
        outputs = _row(output_tensors, "gather") if output_tensors else None
        tensor = _one(input_tensors, "gather")
        check_blocks("gather", outputs, tensor)
        return Work(self._low.gather_list(outputs, tensor, _root(opts, root), timeout=_limit(opts, timeout),
                                          async_op=True))

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: Timeout = None, *,
                root: Any = None) -> Work:
        """Put the r-th input of the root (0 unless said) into the output of rank r; elsewhere the inputs are an empty list."""
        inputs = _row(input_tensors, "scatter") if input_tensors else None
        tensor = _one(output_tensors, "scatter")
        check_blocks("scatter", inputs, tensor)
        return Work(self._low.scatter_list(tensor, inputs, _root(opts, root), timeout=_limit(opts, timeout),
                                           async_op=True))

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None,
                       timeout: Timeout = None, *, op: Any = None) -> Work:
        """Combine the lists of all ranks, tensor by tensor; rank r gets the r-th result. Sizes may differ between them."""
        low, factor = _op(opts, op)
        output, inputs = _one(output_tensors, "reduce_scatter"), _row(input_tensors, "reduce_scatter")
        check_blocks("reduce_scatter", inputs, output)
        return Work(self._low.reduce_scatter_list(output, inputs, low, factor=factor, timeout=_limit(opts, timeout),
                                                  async_op=True))

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Work:
        """Combine the inputs of all ranks; rank r gets the r-th of n equal parts of the result."""
        low, factor = _op(opts, None)
        check_whole("reduce_scatter_single", input, output, self._low.size)
        return Work(self._low.reduce_scatter(output, input, low, factor=factor, timeout=_limit(opts, None),
                                             async_op=True))

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Any, inputs: Any, opts: Any = None) -> Work:
        """reduce_scatter_single of each pair of an output and an input, in one operation."""
        low, factor = _op(opts, None)
        check_each("reduce_scatter_single_coalesced", inputs, outputs, self._low.size)
        return Work(self._low.reduce_scatter_coalesced(outputs, inputs, low, factor=factor, timeout=_limit(opts, None),
                                                       async_op=True))

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None, *,
                 timeout: Timeout = None) -> Work:
        """Send the r-th input to rank r, and put what rank r sent into the r-th output. Sizes may differ from pair to pair."""
        check_exchange("alltoall", output_tensors, input_tensors)
        return Work(self._low.all_to_all_list(output_tensors, input_tensors, timeout=_limit(opts, timeout),
                                              async_op=True))

    def all_to_all_single(self, output: Any, input: Any, output_split_sizes: Sequence[int] = (),
                          input_split_sizes: Sequence[int] = (), opts: Any = None, *, timeout: Timeout = None) -> Work:
        """Split the input along its outermost extent, send the r-th part to rank r, and put what rank r sent into the
        r-th part of the output. Without split sizes the parts are equal."""
        splits: dict[str, Any] = {}
        out_splits, in_splits = splits_of(output_split_sizes, "output"), splits_of(input_split_sizes, "input")
        if out_splits or in_splits:
            splits["output_splits"] = split_counts(output, out_splits, self._low.size, "output")
            splits["input_splits"] = split_counts(input, in_splits, self._low.size, "input")
        return Work(self._low.all_to_all(output, input, timeout=_limit(opts, timeout), async_op=True, **splits))

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None, *, timeout: Timeout = None) -> Work:
        """Done on no rank before every rank has called it."""
        return Work(self._low.barrier(timeout=_limit(opts, timeout), async_op=True))

    def monitored_barrier(self, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
        """A barrier that names the ranks that have not come; blocks. Rank 0 raises TimeoutError, which names the first one that is
        missing, or all with `wait_all_ranks`; the group is then broken, so that the others fail, too."""
        self._low.monitored_barrier(timeout=timeout, wait_all_ranks=wait_all_ranks)

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> Work:
        """Send to one rank of the group, which may be this one. The tensor must not be written to until the Work is done."""
        return Work(self._low.isend(_one(tensors, "send"), dstRank, tag=tag))

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> Work:
        """Receive from one rank of the group; Work.source_rank() tells it."""
        return Work(self._low.irecv(_one(tensors, "recv"), srcRank, tag=tag))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        """Receive the message that comes first; Work.source_rank() tells its sender."""
        return Work(self._low.irecv(_one(tensors, "recv_anysource"), None, tag=tag))
