"""all_reduce, residual add and RMSNorm in one call, for tensor-parallel inference."""

import torch

from ._all_reduce import take_views
from ._groups import Group, name_of

_CALL = "tutti: all_reduce_add_rms_norm_: "
_libraries: list[torch.library.Library] = []  # an operator lives as long as these


def all_reduce_add_rms_norm_(tensor: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6,
                             group: Group = None) -> torch.Tensor:
    """An all_reduce and the step that follows it in a decoder's layer, in one call. It is done when this returns.

    In place: `residual` += the sum of the tensors of all ranks; then `tensor` = the RMSNorm of `residual` along the last
    dimension, times `weight`, and is returned. The three are contiguous, of one floating-point dtype, and share no
    memory. bfloat16 and float32 are normalised in float32 in one go, others by torch's operators. As all_reduce_ it
    has no gradient, and torch.compile takes it.
    """
    torch.ops.tutti.all_reduce_add_rms_norm_.default(tensor, residual, weight, eps, name_of(group))
    return tensor


def define_in_python() -> None:
    """Defines the operator where there is no compiled part to do so."""
    library = torch.library.Library("tutti", "FRAGMENT")
    library.define("all_reduce_add_rms_norm_(Tensor(a!) tensor, Tensor(b!) residual, Tensor weight, float eps, str group) "
                   "-> ()", tags=torch.Tag.pt2_compliant_tag)
    library.impl("all_reduce_add_rms_norm_", _values, "CompositeExplicitAutograd")
    library.impl("all_reduce_add_rms_norm_", _no_values, "Meta")
    take_views(library, "all_reduce_add_rms_norm_")
    _libraries.append(library)


def _no_values(tensor: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, group: str) -> None:
    if tensor.dim() == 0:
        raise ValueError(f"{_CALL}the tensor has no last dimension to normalise")
    if residual.shape != tensor.shape:
        raise ValueError(f"{_CALL}the residual must have the shape {list(tensor.shape)} of the tensor, not "
                         f"{list(residual.shape)}")
    if weight.shape != tensor.shape[-1:]:
        raise ValueError(f"{_CALL}the weight must have the shape {list(tensor.shape[-1:])}, not {list(weight.shape)}")
    if not (residual.dtype == weight.dtype == tensor.dtype and tensor.is_floating_point()):
        raise TypeError(f"{_CALL}the three tensors must have one floating-point dtype, not {tensor.dtype}, "
                        f"{residual.dtype} and {weight.dtype}")


def _values(tensor: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float, group: str) -> None:
    _no_values(tensor, residual, weight, eps, group)
    three = (tensor, residual, weight)
    if not all(one.is_contiguous() and not one.is_neg() for one in three):
        raise ValueError(f"{_CALL}the three tensors must be contiguous and no negated views; call contiguous() and "
                         "resolve_neg() first")
    ends = sorted((one.data_ptr(), one.data_ptr() + one.nbytes) for one in three if one.numel())
    if any(end > begin for (_, end), (begin, _) in zip(ends, ends[1:], strict=False)):
        raise ValueError(f"{_CALL}the three tensors must not share memory")
    if torch.is_grad_enabled() and any(one.requires_grad for one in three):
        raise RuntimeError(f"{_CALL}a tensor requires a gradient, and this operator has none; use torch.no_grad()")
    torch.ops.tutti.all_reduce_.default(tensor, "sum", group)
    residual.add_(tensor)
    tensor.copy_(torch.nn.functional.rms_norm(residual, tensor.shape[-1:], weight, eps))
