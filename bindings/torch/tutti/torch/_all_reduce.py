"""all_reduce with as little around it as torch allows, for tensor-parallel inference."""

import torch
import torch.distributed as dist

from ._groups import Group, group_of, name_of
from ._reduce_ops import OPS, Op, op_name

_libraries: list[torch.library.Library] = []  # an operator lives as long as these


def all_reduce_(tensor: torch.Tensor, op: Op | dist.ReduceOp = "sum", group: Group = None) -> torch.Tensor:
    """Combines the tensors of all ranks in place, and returns `tensor`. It is done when this returns.

    The values are those of torch.distributed.all_reduce, bit by bit. There is no Work and no future, and torch.compile
    keeps the call as one node of its graph (`torch.ops.tutti.all_reduce_`). It has no gradient: with a tensor that
    requires one this is an error outside torch.no_grad(); see tutti.torch.nn.all_reduce. `group` is a group of any
    backend, its name, which is the quickest to look up, or None: the default group. Errors are those of
    torch.distributed.all_reduce.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"tutti: all_reduce_: a torch.Tensor is needed, not a {type(tensor).__name__}")
    torch.ops.tutti.all_reduce_.default(tensor, op_name("tutti: all_reduce_", op, OPS), name_of(group))
    return tensor


def define_in_python() -> None:
    """Defines the operator where there is no compiled part to do so."""
    def values(tensor: torch.Tensor, op: str, group: str) -> None:
        no_values(tensor, op, group)
        if tensor.requires_grad and torch.is_grad_enabled():
            raise RuntimeError("tutti: all_reduce_: the tensor requires a gradient, and this operator has none; use "
                               "tutti.torch.nn.all_reduce, or torch.no_grad()")
        if tensor.is_conj() or tensor.is_neg():  # a view: the memory holds other values
            plain = tensor.resolve_conj().resolve_neg()
            values(plain, op, group)
            tensor.copy_(plain)
            return
        dist.all_reduce(tensor, OPS[op], group_of(group))
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)

    def no_values(tensor: torch.Tensor, op: str, group: str) -> None:
        op_name("tutti: all_reduce_", op, OPS)

    library = torch.library.Library("tutti", "FRAGMENT")
    library.define("all_reduce_(Tensor(a!) tensor, str op, str group) -> ()", tags=torch.Tag.pt2_compliant_tag)
    library.impl("all_reduce_", values, "CompositeExplicitAutograd")
    library.impl("all_reduce_", no_values, "Meta")
    take_views(library, "all_reduce_")
    _libraries.append(library)


def take_views(library: torch.library.Library, name: str) -> None:
    """Conjugated and negated views come to the operator as they are: torch's own kernels for them write back what an
    operator returns, and read memory that is no value where it returns nothing."""
    for key in ("Conjugate", "Negative"):
        library.impl(name, torch.library.fallthrough_kernel, key)
