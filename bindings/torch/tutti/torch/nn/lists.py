"""Collectives that take or return a tensor for each rank, and have a gradient. The rules are those of `singles`.

A sequence of tensors has one for each rank of the group, in the order of its ranks, all of one dtype.
"""

import math
from collections.abc import Sequence
from typing import Literal, Optional

import torch

from . import operators
from .._groups import Group, name_of, size_of
from .checks import check_backward, check_root, check_tensor, checked_op, checked_splits


def _checked_list(call: str, tensors: Sequence[torch.Tensor], size: int, same_shape: bool) -> None:
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"{call}: a list or tuple of tensors is needed, not a {type(tensors).__name__}")
    if len(tensors) != size:
        raise ValueError(f"{call}: {len(tensors)} tensors were given; one for each of the {size} ranks is needed")
    for tensor in tensors:
        check_tensor(call, tensor)
        if tensor.dtype != tensors[0].dtype:
            raise ValueError(f"{call}: the tensors must be of one dtype, not {tensors[0].dtype} and {tensor.dtype}")
        if same_shape and tensor.shape != tensors[0].shape:
            raise ValueError(f"{call}: the tensors must have one shape, not {list(tensors[0].shape)} and "
                             f"{list(tensor.shape)}")


def all_gather(tensor: torch.Tensor, group: Group = None, *,
               backward: Literal["sum", "avg", "own"] = "sum") -> tuple[torch.Tensor, ...]:
    """The tensors of all ranks, each of the shape of `tensor`, which may have no dimension.

    Backward, by `backward`: as all_gather_single, where the gradients of the own rank's tensor are the part. To use
    the own tensor itself and those of the others as constants, take "own".
    """
    check_tensor("all_gather", tensor)
    check_backward("all_gather", backward)
    name = name_of(group)
    return tuple(operators.all_gather(tensor.unsqueeze(0), backward, size_of(name), name).unbind(0))


def gather(tensor: torch.Tensor, dst: int, group: Group = None) -> tuple[torch.Tensor, ...]:
    """The tensors of all ranks on rank `dst`; on the others as many zeros of that shape.

    Backward: scatter of the gradients of `dst`. The other ranks run it, too, through their zeros.
    """
    check_tensor("gather", tensor)
    check_root("gather", dst)
    name = name_of(group)
    return tuple(operators.gather(tensor.unsqueeze(0), dst, size_of(name), name).unbind(0))


def scatter(tensors: Sequence[torch.Tensor], src: int, group: Group = None) -> torch.Tensor:
    """The tensor that rank `src` has for this rank. On the others `tensors` say the shape and the dtype.

    All tensors have one shape, on all ranks. Backward: gather of the gradients on `src`; zeros on the others.
    """
    check_root("scatter", src)
    name = name_of(group)
    size = size_of(name)
    _checked_list("scatter", tensors, size, same_shape=True)
    return operators.scatter(torch.stack(list(tensors)), src, size, name).squeeze(0)


def reduce_scatter(tensors: Sequence[torch.Tensor], op: Literal["sum", "avg"] = "sum",
                   group: Group = None) -> torch.Tensor:
    """The sum or the average over all ranks of the tensors that they have for this rank.

    All tensors have one shape, on all ranks. Backward: all_gather of the gradients, divided by the size if `op` is
    "avg".
    """
    op_name = checked_op("reduce_scatter", op)
    name = name_of(group)
    size = size_of(name)
    _checked_list("reduce_scatter", tensors, size, same_shape=True)
    return operators.reduce_scatter(torch.stack(list(tensors)), op_name, size, name).squeeze(0)


def all_to_all(tensors: Sequence[torch.Tensor], group: Group = None, *,
               output_shapes: Optional[Sequence[Sequence[int]]] = None) -> tuple[torch.Tensor, ...]:
    """Tensor s goes to rank s; the tensors that the others sent to this rank.

    Shapes may differ. `output_shapes` are those of the tensors that are received; without it, what comes from rank s
    has the shape of what goes there. Backward: all_to_all of the gradients.
    """
    name = name_of(group)
    size = size_of(name)
    _checked_list("all_to_all", tensors, size, same_shape=False)
    shapes = [tuple(tensor.shape) for tensor in tensors] if output_shapes is None else [
        tuple(shape) for shape in output_shapes]
    if len(shapes) != size:
        raise ValueError(f"all_to_all: {len(shapes)} output_shapes were given; one for each of the {size} ranks is "
                         "needed")
    if any(length < 0 for shape in shapes for length in shape):
        raise ValueError(f"all_to_all: output_shapes has a negative number: {shapes}")
    counts = checked_splits("all_to_all", "output_shapes", [math.prod(shape) for shape in shapes])
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    received = operators.all_to_all_single(flat, counts, [tensor.numel() for tensor in tensors], size, name)
    return tuple(part.reshape(shape) for part, shape in zip(received.split(counts), shapes, strict=True))
