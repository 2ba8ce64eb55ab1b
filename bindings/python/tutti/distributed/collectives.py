"""The operations that every rank of a group calls in the same order.

`src` and `dst` are global ranks, `group_src` and `group_dst` ranks of the group. With `async_op` a call
returns a Work. `timeout` (a timedelta or seconds) is the operation's own; None is the group's. A process that
is not in the group gets a warning and None.
"""

import warnings
from collections.abc import Sequence
from typing import Any

from tutti._times import Timeout, duration
from tutti.distributed.process_group import AnyGroup, ProcessGroup, member_group, rank_in_group, rank_or_first
from tutti.distributed.operators import Op, RedOpType, low_of, plain, supports_complex
from tutti.distributed.shapes import check_blocks, check_exchange, check_whole
from tutti.distributed.sparse import all_reduce_sparse, is_sparse
from tutti.distributed.tensors import (as_parts, check_list, check_same_dtype, check_single, count_of, is_complex,
                                       known, split_counts, splits_of)
from tutti.distributed.user_ops import UserOp, all_reduce_by, reduce_by, reduce_scatter_by
from tutti.distributed.work import Work
from tutti.errors import InvalidArgument

__all__ = [
    "all_gather", "all_gather_into_tensor", "all_gather_single", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "gather", "gather_into_tensor", "gather_single", "monitored_barrier", "reduce",
    "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scan", "scatter", "scatter_single"]


_SUM = RedOpType.SUM
_LOW_SUM = low_of(_SUM)


def _work(low: Any) -> Work | None:
    return None if low is None else Work(low)


def check_complex(op: Any, tensor: Any, operation: str) -> None:
    """Complex numbers have no order and no bits."""
    if not supports_complex(op) and is_complex(tensor):
        raise InvalidArgument(f"{operation} does not support {plain(op)} on complex tensors")


def broadcast(tensor: Any, src: int | None = None, group: AnyGroup = None, async_op: bool = False,
              group_src: int | None = None, *, timeout: Timeout = None) -> Work | None:
    """Copy the tensor of `src` into everybody's."""
    pg = member_group(group, "broadcast")
    if pg is None:
        return None
    root = rank_in_group(pg, src, group_src)
    if type(tensor) not in known:
        check_single(tensor, "tensor")
    low = pg._low.broadcast(tensor, root, timeout=timeout, async_op=async_op)
    return None if low is None else Work(low)


def all_reduce(tensor: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False, *,
               timeout: Timeout = None) -> Work | None:
    """Combine the tensors of all ranks, element by element, into each of them, in place."""
    if type(tensor) not in known:
        check_single(tensor, "tensor")
    if op is _SUM:
        low_op, factor = _LOW_SUM
    elif isinstance(op, UserOp):
        pg = member_group(group, "all_reduce")
        return None if pg is None else _work(all_reduce_by(pg._low, tensor, op, timeout, async_op))
    else:
        low_op, factor = low_of(op)
        check_complex(op, tensor, "all_reduce")
    pg = member_group(group, "all_reduce")
    if pg is None:
        return None
    try:
        low = pg._low.all_reduce(tensor, low_op, factor=factor, timeout=timeout, async_op=async_op)
    except TypeError:
        if is_sparse(tensor):  # asked only here: it is seldom one
            return all_reduce_sparse(pg, tensor, op, timeout, async_op)
        raise
    return None if low is None else Work(low)


def reduce(tensor: Any, dst: int | None = None, op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False,
           group_dst: int | None = None, *, timeout: Timeout = None) -> Work | None:
    """Combine the tensors of all ranks into that of `dst`; the others' stay as they are."""
    pg = member_group(group, "reduce")
    if pg is None:
        return None
    root = rank_in_group(pg, dst, group_dst)
    check_single(tensor, "tensor")
    if isinstance(op, UserOp):
        return _work(reduce_by(pg._low, tensor, root, op, timeout, async_op))
    low_op, factor = low_of(op)
    check_complex(op, tensor, "reduce")
    return _work(pg._low.reduce(tensor, root, low_op, factor=factor, timeout=timeout, async_op=async_op))


def scan(tensor: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False,
         exclusive: bool = False, *, timeout: Timeout = None) -> Work | None:
    """Combine on rank r the tensors of the ranks 0 to r, in place; with `exclusive`, of the ranks 0 to r - 1.

    Rank 0's tensor then stays as it is. AVG divides by the number of ranks that are combined. torch.distributed has
    no such operation; MPI calls it MPI_Scan and MPI_Exscan.
    """
    pg = member_group(group, "scan")
    if pg is None:
        return None
    check_single(tensor, "tensor")
    low_op, factor = low_of(op)
    check_complex(op, tensor, "scan")
    return _work(pg._low.scan(tensor, low_op, exclusive=exclusive, factor=factor, timeout=timeout, async_op=async_op))


def _parts_if_mixed(mixed: bool, *tensors: Any) -> tuple[Any, ...]:
    """Where complex tensors meet their parts, all as parts."""
    if not mixed:
        return tensors
    return tuple([as_parts(each) for each in tensor] if isinstance(tensor, (list, tuple)) else as_parts(tensor)
                 for tensor in tensors)


def all_gather(tensor_list: Sequence[Any], tensor: Any, group: AnyGroup = None, async_op: bool = False, *,
               timeout: Timeout = None) -> Work | None:
    """Put the tensor of rank r into `tensor_list[r]`, on every rank. Sizes may differ between ranks."""
    check_list(tensor_list, "tensor_list")
    check_single(tensor, "tensor")
    tensor_list, tensor = _parts_if_mixed(check_same_dtype(tensor_list, tensor), tensor_list, tensor)
    pg = member_group(group, "all_gather")
    if pg is None:
        return None
    check_blocks("all_gather", tensor_list, tensor)
    return _work(pg._low.all_gather_list(tensor_list, tensor, timeout=timeout, async_op=async_op))


def all_gather_single(output_tensor: Any, input_tensor: Any, group: AnyGroup = None, async_op: bool = False, *,
                      timeout: Timeout = None) -> Work | None:
    """Put the inputs of all ranks, one after the other, into everybody's output: n times the input's
    elements, stacked or one after the other."""
    check_single(input_tensor, "input_tensor")
    check_single(output_tensor, "output_tensor")
    pg = member_group(group, "all_gather_single")
    if pg is None:
        return None
    check_whole("all_gather_single", output_tensor, input_tensor, len(pg._ranks))
    return _work(pg._low.all_gather(output_tensor, input_tensor, timeout=timeout, async_op=async_op))


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: AnyGroup = None, async_op: bool = False, *,
                           timeout: Timeout = None) -> Work | None:
    """The older name of all_gather_single."""
    return all_gather_single(output_tensor, input_tensor, group, async_op, timeout=timeout)


_all_gather_base = all_gather_into_tensor


def check_list_of_root(own: bool, tensors: Any, name: str, place: str) -> None:
    """ValueError unless there is a list on the root, and only there."""
    if own and not tensors:
        raise ValueError(f"Argument ``{name}`` must be specified on {place} rank.")
    if not own and tensors:
        raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{place} ranks.")


def _check_with_list(tensor: Any, tensors: Sequence[Any] | None, name: str) -> tuple[Any, Sequence[Any]]:
    """The tensor and the root's list (elsewhere an empty one) of a gather or scatter, of one dtype."""
    check_single(tensor, "tensor")
    if tensors:
        check_list(tensors, name)
    checked: tuple[Any, Any] = _parts_if_mixed(check_same_dtype(tensor, tensors or []), tensor, tensors or [])
    return checked


def gather(tensor: Any, gather_list: Sequence[Any] | None = None, dst: int | None = None, group: AnyGroup = None,
           async_op: bool = False, group_dst: int | None = None, *, timeout: Timeout = None) -> Work | None:
    """Put the tensor of rank r into `gather_list[r]` on `dst` (0 unless said). Only there is a list given."""
    tensor, outputs = _check_with_list(tensor, gather_list, "gather_list")
    pg = member_group(group, "gather")
    if pg is None:
        return None
    root = rank_or_first(pg, dst, group_dst)
    check_list_of_root(root == pg._own, outputs, "gather_list", "destination")
    check_blocks("gather", outputs, tensor)
    return _work(pg._low.gather_list(outputs or None, tensor, root, timeout=timeout, async_op=async_op))


def gather_single(output_tensor: Any, input_tensor: Any, dst: int | None = None, group: AnyGroup = None,
                  async_op: bool = False, group_dst: int | None = None, *, timeout: Timeout = None) -> Work | None:
    """As gather, into one tensor on `dst`; the others give None."""
    check_single(input_tensor, "input_tensor")
    pg = member_group(group, "gather_single")
    if pg is None:
        return None
    root = rank_or_first(pg, dst, group_dst)
    if root == pg._own:
        check_single(output_tensor, "output_tensor")
        check_whole("gather_single", output_tensor, input_tensor, len(pg._ranks))
    return _work(pg._low.gather(output_tensor if root == pg._own else None, input_tensor, root, timeout=timeout,
                                async_op=async_op))


gather_into_tensor = gather_single


def scatter(tensor: Any, scatter_list: Sequence[Any] | None = None, src: int | None = None, group: AnyGroup = None,
            async_op: bool = False, group_src: int | None = None, *, timeout: Timeout = None) -> Work | None:
    """Put `scatter_list[r]` of `src` (0 unless said) into the tensor of rank r. Only there is a list given."""
    tensor, inputs = _check_with_list(tensor, scatter_list, "scatter_list")
    pg = member_group(group, "scatter")
    if pg is None:
        return None
    root = rank_or_first(pg, src, group_src)
    check_list_of_root(root == pg._own, inputs, "scatter_list", "source")
    check_blocks("scatter", inputs, tensor)
    return _work(pg._low.scatter_list(tensor, inputs or None, root, timeout=timeout, async_op=async_op))


def scatter_single(output_tensor: Any, input_tensor: Any, src: int | None = None, group: AnyGroup = None,
                   async_op: bool = False, group_src: int | None = None, *, timeout: Timeout = None) -> Work | None:
    """As scatter, from one tensor on `src`; the others give None."""
    check_single(output_tensor, "output_tensor")
    pg = member_group(group, "scatter_single")
    if pg is None:
        return None
    root = rank_or_first(pg, src, group_src)
    if root == pg._own:
        check_single(input_tensor, "input_tensor")
        check_whole("scatter_single", input_tensor, output_tensor, len(pg._ranks))
    return _work(pg._low.scatter(output_tensor, input_tensor if root == pg._own else None, root, timeout=timeout,
                                 async_op=async_op))


def reduce_scatter(output: Any, input_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None,
                   async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """Combine the lists of all ranks, tensor by tensor; rank r gets the r-th result. Sizes may differ
    between the tensors of a list."""
    check_single(output, "output")
    check_list(input_list, "input_list")
    output, input_list = _parts_if_mixed(check_same_dtype(output, input_list), output, input_list)
    pg = member_group(group, "reduce_scatter")
    if pg is None:
        return None
    if isinstance(op, UserOp):
        check_blocks("reduce_scatter", input_list, output)
        return _work(reduce_scatter_by(pg._low, output, input_list, op, timeout, async_op))
    low_op, factor = low_of(op)
    check_complex(op, output, "reduce_scatter")
    check_blocks("reduce_scatter", input_list, output)
    return _work(pg._low.reduce_scatter_list(output, input_list, low_op, factor=factor, timeout=timeout,
                                             async_op=async_op))


def reduce_scatter_single(output: Any, input: Any, op: Op = RedOpType.SUM, group: AnyGroup = None,
                          async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """Combine the inputs of all ranks; rank r gets the r-th of n equal parts of the result."""
    check_single(output, "output")
    check_single(input, "input")
    pg = member_group(group, "reduce_scatter_single")
    if pg is None:
        return None
    if isinstance(op, UserOp):
        check_whole("reduce_scatter_single", input, output, len(pg._ranks))
        return _work(reduce_scatter_by(pg._low, output, input, op, timeout, async_op))
    low_op, factor = low_of(op)
    check_complex(op, input, "reduce_scatter")
    check_whole("reduce_scatter_single", input, output, len(pg._ranks))
    return _work(pg._low.reduce_scatter(output, input, low_op, factor=factor, timeout=timeout, async_op=async_op))


def reduce_scatter_tensor(output: Any, input: Any, op: Op = RedOpType.SUM, group: AnyGroup = None,
                          async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """The older name of reduce_scatter_single."""
    return reduce_scatter_single(output, input, op, group, async_op, timeout=timeout)


_reduce_scatter_base = reduce_scatter_tensor


def all_to_all_single(output: Any, input: Any, output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: AnyGroup = None, async_op: bool = False, *,
                      timeout: Timeout = None) -> Work | None:
    """Split the input along its outermost extent, send the r-th part to rank r, and put what rank r sent
    into the r-th part of the output. Without splits the parts are equal."""
    check_single(output, "output")
    check_single(input, "input")
    output, input = _parts_if_mixed(check_same_dtype(output, input), output, input)
    pg = member_group(group, "all_to_all_single")
    if pg is None:
        return None
    size = len(pg._ranks)
    out_splits, in_splits = splits_of(output_split_sizes, "output"), splits_of(input_split_sizes, "input")
    if not out_splits and not in_splits:
        _check_even(output, input, size)
        return _work(pg._low.all_to_all(output, input, timeout=timeout, async_op=async_op))
    out = split_counts(output, out_splits, size, "output")
    into = split_counts(input, in_splits, size, "input")
    return _work(pg._low.all_to_all(output, input, output_splits=out, input_splits=into, timeout=timeout,
                                    async_op=async_op))


def _check_even(output: Any, input: Any, size: int) -> None:
    for tensor, side in ((output, "output"), (input, "input")):
        if count_of(tensor) % size != 0:
            raise InvalidArgument(f"all_to_all_single: the {side} has {count_of(tensor)} elements, which do not divide "
                                  f"equally across {size} ranks; give split sizes")
    if count_of(output) != count_of(input):
        raise InvalidArgument(f"all_to_all_single: the output has {count_of(output)} elements and the input "
                              f"{count_of(input)}; without split sizes they must be equal")


def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: AnyGroup = None,
               async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """Send `input_tensor_list[r]` to rank r, and put what rank r sent into `output_tensor_list[r]`. Sizes
    may differ from pair to pair."""
    check_list(output_tensor_list, "output_tensor_list")
    check_list(input_tensor_list, "input_tensor_list")
    output_tensor_list, input_tensor_list = _parts_if_mixed(
        check_same_dtype(output_tensor_list, input_tensor_list), output_tensor_list, input_tensor_list)
    pg = member_group(group, "all_to_all")
    if pg is None:
        return None
    if not output_tensor_list and not input_tensor_list:
        raise InvalidArgument(f"all_to_all: the lists are empty; each has a tensor for each of {len(pg._ranks)} ranks")
    check_exchange("all_to_all", output_tensor_list, input_tensor_list)
    return _work(pg._low.all_to_all_list(output_tensor_list, input_tensor_list, timeout=timeout, async_op=async_op))


def barrier(group: AnyGroup = None, async_op: bool = False, device_ids: list[int] | None = None, timeout: Timeout = None
            ) -> Work | None:
    """Returns on no rank before every rank has called it."""
    pg = member_group(group, "barrier")
    if pg is None:
        return None
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    return _work(pg._low.barrier(timeout=timeout, async_op=async_op))


def monitored_barrier(group: AnyGroup = None, timeout: Timeout = None, wait_all_ranks: bool = False) -> None:
    """A barrier that names the ranks that have not come. Rank 0 waits for the others for `timeout` (the group's unless given)
    and names the first one, or with `wait_all_ranks` all, in its TimeoutError. The group is then broken, so that
    the others fail, too."""
    pg = member_group(group, "monitored_barrier")
    if pg is None:
        return
    if isinstance(timeout, float):
        warnings.warn("Please specify timeout arg as a timedelta. "
                      f"Converting current value of {timeout} assuming it represents seconds", stacklevel=2)
    elif timeout is not None:
        timeout = duration(timeout)
    pg._low.monitored_barrier(timeout=timeout, wait_all_ranks=wait_all_ranks)
