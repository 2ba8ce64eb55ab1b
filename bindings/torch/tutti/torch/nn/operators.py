"""The collectives as operators of torch: `torch.ops.tutti.all_reduce`, `torch.ops.tutti.broadcast` and so on.

Each takes one tensor and returns a new one, has a kernel for tensors without values, and a backward that is made of
these same operators. So second derivatives and torch.compile need nothing of their own. `size` is given, not asked of
the group, because torch keeps compiled graphs by their arguments.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .._groups import group_of, root_of
from .checks import OPS, check_backward, checked_op

Shape = tuple[int, ...]
Operator = Callable[..., torch.Tensor]

# Their names since torch 2.13; the former ones warn there.
_gather_into = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter_into = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def _define(name: str, options: str, forward: Callable[..., None], shape: Callable[..., Shape],
            backward: Operator) -> Operator:
    """An operator of a tensor and options, the last of which are the size and the name of the group.

    `shape` checks them, without the group, and says what the output is like; `forward` fills the output.
    """
    def kernel(tensor: torch.Tensor, *rest: Any) -> torch.Tensor:
        if tensor.layout != torch.strided:
            raise ValueError(f"{name}: the tensor is {tensor.layout}; only dense tensors have these collectives")
        output = tensor.new_empty(shape(tensor, *rest))
        forward(output, tensor, *rest[:-2], group_of(rest[-1]))
        return output

    def fake(tensor: torch.Tensor, *rest: Any) -> torch.Tensor:
        return tensor.new_empty(shape(tensor, *rest))

    def keep(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.options = inputs[1:]

    def gradient(ctx: Any, grad: torch.Tensor) -> tuple[Any, ...]:
        return (backward(grad, *ctx.options), *(None for _ in ctx.options))

    made: Any = torch.library.custom_op(f"tutti::{name}", kernel, mutates_args=(),
                                        schema=f"(Tensor tensor, {options}int size, str group) -> Tensor")
    made.register_fake(fake)
    made.register_autograd(gradient, setup_context=keep)
    operator: Operator = getattr(torch.ops.tutti, name).default
    return operator


def _same_shape(tensor: torch.Tensor, *_: Any) -> Shape:
    return tuple(tensor.shape)


def _reduced_shape(call: str, tensor: torch.Tensor, *options: Any) -> Shape:
    checked_op(call, options[-3])
    return tuple(tensor.shape)


def _whole_shape(tensor: torch.Tensor, *options: Any) -> Shape:
    return (tensor.shape[0] * options[-2], *tensor.shape[1:])


def _part_shape(call: str, tensor: torch.Tensor, *options: Any) -> Shape:
    size = options[-2]
    if tensor.dim() == 0 or tensor.shape[0] % size != 0:
        raise ValueError(f"{call}: dimension 0 must be a multiple of the {size} ranks; the tensor has the shape "
                         f"{list(tensor.shape)}")
    return (tensor.shape[0] // size, *tensor.shape[1:])


def _parts(whole: torch.Tensor, size: int) -> list[torch.Tensor]:
    """Views of the parts of all ranks."""
    return list(whole.view(size, whole.shape[0] // size, *whole.shape[1:]).unbind(0))


# all_reduce

def _all_reduce(output: torch.Tensor, tensor: torch.Tensor, op: str, group: dist.ProcessGroup) -> None:
    dist.all_reduce(output.copy_(tensor), OPS[op], group=group)


# reduce and broadcast: each is the other's backward

def _reduce(output: torch.Tensor, tensor: torch.Tensor, root: int, op: str, group: dist.ProcessGroup) -> None:
    is_root = root_of("reduce", root, group)
    dist.reduce(output.copy_(tensor), root, OPS[op], group=group)
    if not is_root:
        output.zero_()


def _reduce_backward(grad: torch.Tensor, root: int, op: str, size: int, group: str) -> torch.Tensor:
    sent = broadcast(grad, root, size, group)
    return sent / size if op == "avg" else sent


def _broadcast(output: torch.Tensor, tensor: torch.Tensor, root: int, group: dist.ProcessGroup) -> None:
    if root_of("broadcast", root, group):
        output.copy_(tensor)
    dist.broadcast(output, root, group=group)


# gather and scatter: each is the other's backward

def _gather(output: torch.Tensor, tensor: torch.Tensor, root: int, group: dist.ProcessGroup) -> None:
    is_root = root_of("gather", root, group)
    dist.gather(tensor, _parts(output, group.size()) if is_root else None, root, group=group)
    if not is_root:
        output.zero_()


def _scatter(output: torch.Tensor, tensor: torch.Tensor, root: int, group: dist.ProcessGroup) -> None:
    is_root = root_of("scatter", root, group)
    dist.scatter(output, _parts(tensor, group.size()) if is_root else None, root, group=group)


# all_gather and reduce_scatter, and the part of the own rank

def _all_gather_shape(tensor: torch.Tensor, backward: str, size: int, group: str) -> Shape:
    check_backward("all_gather", backward)
    if tensor.dim() == 0:
        raise ValueError("all_gather_single: the tensor has no dimension 0; all_gather takes it")
    return _whole_shape(tensor, size, group)


def _all_gather(output: torch.Tensor, tensor: torch.Tensor, backward: str, group: dist.ProcessGroup) -> None:
    _gather_into(output, tensor, group=group)


def _all_gather_backward(grad: torch.Tensor, backward: str, size: int, group: str) -> torch.Tensor:
    if backward == "own":
        return own_part(grad, size, group)
    return reduce_scatter(grad, backward, size, group)


def _reduce_scatter_shape(tensor: torch.Tensor, op: str, size: int, group: str) -> Shape:
    checked_op("reduce_scatter", op)
    return _part_shape("reduce_scatter", tensor, size, group)


def _reduce_scatter(output: torch.Tensor, tensor: torch.Tensor, op: str, group: dist.ProcessGroup) -> None:
    _reduce_scatter_into(output, tensor, OPS[op], group=group)


def _reduce_scatter_backward(grad: torch.Tensor, op: str, size: int, group: str) -> torch.Tensor:
    gathered = all_gather(grad, "sum", size, group)
    return gathered / size if op == "avg" else gathered


def _own_part(output: torch.Tensor, tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    output.copy_(_parts(tensor, group.size())[group.rank()])


def _among_zeros(output: torch.Tensor, tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    _parts(output.zero_(), group.size())[group.rank()].copy_(tensor)


# all_to_all_single: its own backward, with the splits exchanged

def _all_to_all_shape(tensor: torch.Tensor, receives: list[int], sends: list[int], size: int, group: str) -> Shape:
    for what, splits in (("output_split_sizes", receives), ("input_split_sizes", sends)):
        if len(splits) != size:
            raise ValueError(f"all_to_all_single: {what} has {len(splits)} numbers; it must have one for each of the "
                             f"{size} ranks")
        if any(one < 0 for one in splits):
            raise ValueError(f"all_to_all_single: {what} has a negative number: {splits}")
    if tensor.dim() == 0 or tensor.shape[0] != sum(sends):
        raise ValueError(f"all_to_all_single: input_split_sizes add up to {sum(sends)}, which must be dimension 0; the "
                         f"tensor has the shape {list(tensor.shape)}")
    return (sum(receives), *tensor.shape[1:])


def _all_to_all(output: torch.Tensor, tensor: torch.Tensor, receives: list[int], sends: list[int],
                group: dist.ProcessGroup) -> None:
    dist.all_to_all_single(output, tensor, receives, sends, group=group)


# Each backward is looked up when it runs: it may be defined further down.
all_reduce: Operator = _define("all_reduce", "str op, ", _all_reduce, functools.partial(_reduced_shape, "all_reduce"),
                               lambda grad, *options: all_reduce(grad, *options))
reduce: Operator = _define("reduce", "int root, str op, ", _reduce, functools.partial(_reduced_shape, "reduce"),
                           _reduce_backward)
broadcast: Operator = _define("broadcast", "int root, ", _broadcast, _same_shape,
                              lambda grad, root, *rest: reduce(grad, root, "sum", *rest))
gather: Operator = _define("gather", "int root, ", _gather, _whole_shape,
                           lambda grad, *options: scatter(grad, *options))
scatter: Operator = _define("scatter", "int root, ", _scatter, functools.partial(_part_shape, "scatter"),
                            lambda grad, *options: gather(grad, *options))
all_gather: Operator = _define("all_gather", "str backward, ", _all_gather, _all_gather_shape, _all_gather_backward)
reduce_scatter: Operator = _define("reduce_scatter", "str op, ", _reduce_scatter, _reduce_scatter_shape,
                                   _reduce_scatter_backward)
own_part: Operator = _define("own_part", "", _own_part, functools.partial(_part_shape, "all_gather"),
                             lambda grad, *options: among_zeros(grad, *options))
among_zeros: Operator = _define("among_zeros", "", _among_zeros, _whole_shape,
                                lambda grad, *options: own_part(grad, *options))
all_to_all_single: Operator = _define(
    "all_to_all_single", "SymInt[] receives, SymInt[] sends, ", _all_to_all, _all_to_all_shape,
    lambda grad, receives, sends, *rest: all_to_all_single(grad, sends, receives, *rest))
