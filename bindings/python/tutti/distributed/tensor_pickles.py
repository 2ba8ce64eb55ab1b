"""torch tensors in pickles: their memory as a buffer of bytes, and how a tensor is made of it again. torch's own way
writes a file of torch.save's into the pickle, which is slow, and whose reader runs what the file wants."""

import pickle
import sys
from collections.abc import Sequence
from typing import Any

# Those with whole bytes for elements; tensors of others travel as torch would have it.
DTYPES = {
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
    "float64", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu"}


class TensorReducer:
    """How one pickle describes the tensors in it."""

    def __init__(self) -> None:
        # A folder of that name may lie where Python looks for modules, and be one without anything in it.
        self._torch = sys.modules.get("torch") if hasattr(sys.modules.get("torch"), "Tensor") else None
        self._seen: dict[int, Any] = {}  # by address: tensors that share all of their memory still do afterwards

    def __call__(self, value: Any) -> Any:
        """A function and its arguments, for a plain tensor in CPU memory; NotImplemented for anything else. Elements
        of a view travel without those between them, and those of an expanded tensor once."""
        torch = self._torch
        if torch is None or type(value) is not torch.Tensor:
            return NotImplemented
        dtype = str(value.dtype).removeprefix("torch.")
        if (dtype not in DTYPES or value.device.type != "cpu" or value.layout is not torch.strided
                or value._backward_hooks or vars(value)):
            return NotImplemented
        plain = value.detach().resolve_conj().resolve_neg()
        memory, strides = _packed(plain)
        how = (dtype, tuple(plain.shape), value.requires_grad) + (() if strides is None else (strides,))
        flat = memory.reshape(-1)
        if flat.stride(0) != 1:  # of one element
            flat = flat.clone(memory_format=torch.contiguous_format)
        octets = flat.view(torch.uint8)
        if 0 < octets.numel() == plain.untyped_storage().nbytes():
            first = self._seen.get(memory.data_ptr())
            if first is not None:
                return same_memory, (first, *how)
            if strides is None and memory.data_ptr() == value.data_ptr():
                self._seen[memory.data_ptr()] = value
        return tensor, (pickle.PickleBuffer(_memory(octets)), *how)


def _packed(plain: Any) -> tuple[Any, tuple[int, ...] | None]:
    """The elements as they travel, contiguous, and the strides of the tensor in them; None where they are row-major."""
    own = tuple(plain.stride())
    if plain.numel() == 0:
        return plain, None if own == _row_major(plain.shape) else own
    memory = plain
    for dim, step in enumerate(own):
        if step == 0:
            memory = memory.narrow(dim, 0, 1)
    order = sorted(range(plain.dim()), key=memory.stride, reverse=True)
    if memory.is_contiguous():
        order = list(range(plain.dim()))
    dense = memory.permute(order)
    packed = dense.contiguous()  # a copy where some of its memory is not its own
    if packed.data_ptr() == dense.data_ptr():
        return packed, None if own == _row_major(plain.shape) else own
    strides = [0] * plain.dim()
    for dim, step in zip(order, _row_major(packed.shape)):
        strides[dim] = 0 if own[dim] == 0 else step
    return packed, tuple(strides) if tuple(strides) != _row_major(plain.shape) else None


def _row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return tuple(strides)


def _memory(octets: Any) -> Any:
    try:
        return octets.numpy()
    except RuntimeError:  # torch where NumPy is not installed
        import ctypes  # noqa: PLC0415: takes long, and is needed here only
        return ctypes.string_at(octets.data_ptr(), octets.numel())


def tensor(octets: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool,
           strides: Sequence[int] | None = None) -> Any:
    """The tensor of these bytes, in their memory if it may be written. Without strides they lie in row-major order."""
    import torch
    octets = memoryview(octets)
    if octets.nbytes == 0:
        flat = torch.empty(0, dtype=_dtype(dtype))
    else:
        # torch keeps what it is given, and only a view keeps a bytearray from moving when it grows.
        flat = torch.frombuffer(memoryview(bytearray(octets)) if octets.readonly else octets, dtype=_dtype(dtype))
    return _finished(flat, shape, requires_grad, strides)


def same_memory(first: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool,
                strides: Sequence[int] | None = None) -> Any:
    """Another tensor in the memory of the first."""
    return _finished(first.detach().reshape(-1).view(_dtype(dtype)), shape, requires_grad, strides)


def _finished(flat: Any, shape: tuple[int, ...], requires_grad: bool, strides: Sequence[int] | None) -> Any:
    made = flat.reshape(shape) if strides is None else flat.as_strided(shape, strides)
    return made.requires_grad_() if requires_grad else made


def _dtype(name: str) -> Any:
    import torch
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise pickle.UnpicklingError(f"{name!r} is no dtype of torch")
    return dtype
