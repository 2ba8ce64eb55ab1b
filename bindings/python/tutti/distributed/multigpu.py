"""The functions of the first releases that take a list of tensors per process, which may be on several GPUs.

Every process gives as many tensors as the others, of one dtype and size, all on GPUs or all on the CPU. `wait` returns
when the results are there.
"""

from collections.abc import Sequence
from typing import Any

from tutti import _tutti
from tutti._times import Timeout
from tutti.distributed.collectives import check_complex
from tutti.distributed.process_group import AnyGroup, ProcessGroup, member_group, rank_in_group
from tutti.distributed.operators import Op, RedOpType, low_of, plain
from tutti.distributed.tensors import check_list, check_same_dtype
from tutti.distributed.work import Work

__all__ = [
    "all_gather_multigpu", "all_reduce_multigpu", "broadcast_multigpu", "reduce_multigpu"]


def _checked(tensor_list: Sequence[Any], group: Any, operation: str) -> ProcessGroup | None:
    check_list(tensor_list, "tensor_list")
    if not tensor_list:
        raise ValueError(f"{operation}: the list of tensors is empty")
    check_same_dtype(tensor_list)
    return member_group(group, operation)


def _check_index(index: int, tensors: Sequence[Any], name: str) -> None:
    if not isinstance(index, int) or not 0 <= index < len(tensors):
        raise ValueError(f"{name} is {index}; the list has {len(tensors)} tensors")


def _low_op(op: Any, tensor: Any, operation: str) -> Any:
    if plain(op) is RedOpType.PREMUL_SUM:
        raise ValueError(f"{operation} takes no pre-multiplied sum")
    check_complex(op, tensor, operation)
    return low_of(op)[0]


def _work(low: _tutti.Work | None) -> Work | None:
    return None if low is None else Work(low)


def broadcast_multigpu(tensor_list: Sequence[Any], src: int, group: AnyGroup = None, async_op: bool = False,
                       src_tensor: int = 0, *, timeout: Timeout = None) -> Work | None:
    """Copy `tensor_list[src_tensor]` of `src` into every tensor of every rank."""
    pg = _checked(tensor_list, group, "broadcast_multigpu")
    if pg is None:
        return None
    _check_index(src_tensor, tensor_list, "src_tensor")
    return _work(pg._low._broadcast_multigpu(list(tensor_list), rank_in_group(pg, src, None), src_tensor, timeout=timeout,
                                            async_op=async_op))


def all_reduce_multigpu(tensor_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None,
                        async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """Combine all tensors of all ranks into each of them."""
    pg = _checked(tensor_list, group, "all_reduce_multigpu")
    if pg is None:
        return None
    low_op = _low_op(op, tensor_list[0], "all_reduce_multigpu")
    return _work(pg._low._all_reduce_multigpu(tensor_list, low_op, timeout=timeout, async_op=async_op))


def reduce_multigpu(tensor_list: Sequence[Any], dst: int, op: Op = RedOpType.SUM, group: AnyGroup = None,
                    async_op: bool = False, dst_tensor: int = 0, *, timeout: Timeout = None) -> Work | None:
    """Combine all tensors of all ranks into `tensor_list[dst_tensor]` of `dst`."""
    pg = _checked(tensor_list, group, "reduce_multigpu")
    if pg is None:
        return None
    _check_index(dst_tensor, tensor_list, "dst_tensor")
    low_op = _low_op(op, tensor_list[0], "reduce_multigpu")
    return _work(pg._low._reduce_multigpu(list(tensor_list), rank_in_group(pg, dst, None), low_op, dst_tensor,
                                         timeout=timeout, async_op=async_op))


def all_gather_multigpu(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                        group: AnyGroup = None, async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """Gather all tensors of all ranks: input j of rank k lands in `output_tensor_lists[i][k * n + j]` for
    every i, where n is the number of inputs."""
    if not isinstance(output_tensor_lists, (list, tuple)):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for tensors in output_tensor_lists:
        check_list(tensors, "output_tensor_lists")
    pg = _checked(input_tensor_list, group, "all_gather_multigpu")
    if pg is None:
        return None
    inputs, size = len(input_tensor_list), len(pg._ranks)
    check_same_dtype(input_tensor_list, *output_tensor_lists)
    if len(output_tensor_lists) != inputs:
        raise ValueError(f"all_gather_multigpu: {len(output_tensor_lists)} output lists for {inputs} inputs; give one "
                         f"for each")
    for tensors in output_tensor_lists:
        if len(tensors) != inputs * size:
            raise ValueError(f"all_gather_multigpu: an output list has {len(tensors)} tensors; it must have "
                             f"{inputs} x {size} = {inputs * size}")
    outputs = [tensor for row in output_tensor_lists for tensor in row]
    return _work(pg._low._all_gather_multigpu(outputs, input_tensor_list, timeout=timeout, async_op=async_op))
