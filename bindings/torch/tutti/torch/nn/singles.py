"""Collectives of one tensor that return one tensor, and have a gradient.

In each, `tensor` has the same shape and dtype on all ranks, of any strides; `group` is a ProcessGroup, its name, or None
for the default group; `src` and `dst` are ranks of the default group, as in torch.distributed. A gradient is that of the
sum of the losses of all ranks, unless a function says otherwise.

A wrong argument is a TypeError or ValueError before anything is sent, as is a group that this rank is not in. A lost
rank, a timeout and ranks that disagree are errors of the group (bindings/torch/README.md).
"""

from collections.abc import Sequence
from typing import Literal, Optional

import torch

from . import operators
from .._groups import Group, name_of, size_of
from .checks import check_backward, check_root, check_tensor, checked_op, checked_splits


def all_reduce(tensor: torch.Tensor, op: Literal["sum", "avg"] = "sum", group: Group = None) -> torch.Tensor:
    """The sum or the average of the tensors of all ranks, on all ranks: `y = sum_r x_r`, or that divided by the size.

    Backward: all_reduce of the gradients with the same `op`.
    """
    check_tensor("all_reduce", tensor)
    op_name = checked_op("all_reduce", op)
    name = name_of(group)
    return operators.all_reduce(tensor, op_name, size_of(name), name)


def reduce(tensor: torch.Tensor, dst: int, op: Literal["sum", "avg"] = "sum", group: Group = None) -> torch.Tensor:
    """The sum or the average of the tensors of all ranks, on rank `dst`; zeros of that shape on the others.

    Backward: broadcast of the gradient of `dst`, divided by the size if `op` is "avg". The other ranks run it, too,
    through their zeros, and their gradient is not looked at.
    """
    check_tensor("reduce", tensor)
    op_name = checked_op("reduce", op)
    check_root("reduce", dst)
    name = name_of(group)
    return operators.reduce(tensor, dst, op_name, size_of(name), name)


def broadcast(tensor: torch.Tensor, src: int, group: Group = None) -> torch.Tensor:
    """The tensor of rank `src`, on all ranks; on the others `tensor` says the shape and the dtype.

    Backward: the sum of the gradients of all ranks on `src`, zeros on the others.
    """
    check_tensor("broadcast", tensor)
    check_root("broadcast", src)
    name = name_of(group)
    return operators.broadcast(tensor, src, size_of(name), name)


def all_gather_single(tensor: torch.Tensor, group: Group = None, *,
                      backward: Literal["sum", "avg", "own"] = "sum") -> torch.Tensor:
    """The tensors of all ranks one after the other along dimension 0, in the order of the ranks of the group.

    `tensor` is of shape (k, ...), the result of shape (size * k, ...).

    Backward, of the gradients g_r of the result on rank r, for the part of the own rank:

    - "sum": the sum over r of g_r[own part]: the gradient of the sum of the losses of all ranks; a reduce_scatter.
    - "avg": that divided by the size: the gradient of the mean of the losses. Right as well where all ranks
      compute the same loss of the result.
    - "own": g_own[own part], as if the parts of the others were constants. Nothing is sent.
    """
    check_tensor("all_gather_single", tensor)
    check_backward("all_gather_single", backward)
    name = name_of(group)
    return operators.all_gather(tensor, backward, size_of(name), name)


def reduce_scatter_single(tensor: torch.Tensor, op: Literal["sum", "avg"] = "sum",
                          group: Group = None) -> torch.Tensor:
    """The own part of the sum or the average of the tensors of all ranks.

    `tensor` is of shape (size * k, ...), the result of shape (k, ...): rank r of the group has elements r * k to
    (r + 1) * k of dimension 0.

    Backward: all_gather of the gradients along dimension 0, divided by the size if `op` is "avg".
    """
    check_tensor("reduce_scatter_single", tensor)
    op_name = checked_op("reduce_scatter_single", op)
    name = name_of(group)
    return operators.reduce_scatter(tensor, op_name, size_of(name), name)


def all_to_all_single(tensor: torch.Tensor, output_split_sizes: Optional[Sequence[int]] = None,
                      input_split_sizes: Optional[Sequence[int]] = None, group: Group = None) -> torch.Tensor:
    """Part s of dimension 0 goes to rank s; what the others sent is joined along dimension 0 in the order of the ranks.

    `input_split_sizes` are the lengths of the parts that are sent, `output_split_sizes` those of the parts that are
    received, one for each rank, 0 included; both are given, or neither: then dimension 0 is split equally. Dimensions
    after the first are the same on all ranks.

    Backward: all_to_all_single of the gradients with the two splits exchanged.
    """
    check_tensor("all_to_all_single", tensor)
    name = name_of(group)
    size = size_of(name)
    if output_split_sizes is None and input_split_sizes is None:
        if tensor.dim() == 0 or tensor.shape[0] % size != 0:
            raise ValueError(f"all_to_all_single: without splits dimension 0 must be a multiple of the {size} ranks; the "
                             f"tensor has the shape {list(tensor.shape)}")
        output_split_sizes = input_split_sizes = [tensor.shape[0] // size] * size
    if output_split_sizes is None or input_split_sizes is None:
        raise ValueError("all_to_all_single: give both output_split_sizes and input_split_sizes, or neither")
    outputs = checked_splits("all_to_all_single", "output_split_sizes", output_split_sizes)
    inputs = checked_splits("all_to_all_single", "input_split_sizes", input_split_sizes)
    return operators.all_to_all_single(tensor, outputs, inputs, size, name)
