"""The types that count as tensors here, and the checks of them before anything is sent."""

import array
import mmap
import sys
from collections.abc import Sequence
from typing import Any

from tutti import _tutti
from tutti.errors import InvalidArgument

_INTERFACES = ("__dlpack__", "__array_interface__", "__cuda_array_interface__")
_BUFFERS = (bytes, bytearray, memoryview, array.array, mmap.mmap)
# Types that were found to be tensors. Every call looks here first.
known: set[type] = set(_BUFFERS)


def is_tensor(value: Any) -> bool:
    """A NumPy array, a torch tensor, anything with DLPack, an array interface or the buffer protocol."""
    kind = type(value)
    if kind in known:
        return True
    if isinstance(value, type):
        return False
    if any(hasattr(kind, name) for name in _INTERFACES) or isinstance(value, _BUFFERS):
        known.add(kind)
        return True
    try:
        memoryview(value).release()
    except TypeError:
        return False
    known.add(kind)
    return True


def _torch_or(name_of_torch: str, ours: str) -> str:
    """torch's name for a type where the program has torch."""
    return name_of_torch if "torch" in sys.modules else ours


def _instead_of(value: Any) -> str:
    """The value to pass in place of an object that can become an array."""
    if hasattr(value, "to_numpy"):
        return " Pass the NumPy array of its to_numpy(), and keep that: results are written into it."
    if isinstance(value, (list, tuple)):
        return " Pass a NumPy array of it (numpy.asarray), and keep that: results are written into it."
    return ""


def check_single(value: Any, name: str) -> None:
    """TypeError if it is no tensor."""
    if type(value) not in known and not is_tensor(value):
        kind = _torch_or("torch.Tensor", "array (NumPy, DLPack or a buffer)")
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type {kind}\n"
                        f"             but got {type(value)} instead.{_instead_of(value)}")


def check_list(values: Any, name: str) -> None:
    """TypeError if it is no list of tensors."""
    if not isinstance(values, list):
        if isinstance(values, tuple):
            pass  # as good as a list
        else:
            kind = _torch_or("List[torch.Tensor]", "list of arrays")
            raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type {kind}\n"
                            f"             but got {type(values)} instead.")
    for value in values:
        if type(value) not in known and not is_tensor(value):
            kind = _torch_or("List[torch.Tensor]", "list of arrays")
            raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type {kind}\n"
                            f"             but got {type(values)} with elements of type "
                            f"{[type(element) for element in values]}.{_instead_of(value)}")


def dtype_of(value: Any) -> str:
    """tutti's name of the element type; the tensor's own where tutti does not know it."""
    try:
        return _tutti.dtype_name(value)
    except TypeError:
        return str(getattr(value, "dtype", type(value)))


def _printed_dtype(value: Any) -> str:
    dtype = getattr(value, "dtype", None)
    return str(dtype) if dtype is not None else dtype_of(value)


_PARTS = {"complex64": "float32", "complex128": "float64"}


def check_same_dtype(*groups: Any) -> bool:
    """ValueError if the tensors (or lists of them) have more than one dtype. A complex type and that
    of its parts count as one; True if both occur."""
    first: Any = None
    mixed = False
    for group in groups:
        for value in group if isinstance(group, (list, tuple)) else (group,):
            if first is None:
                first = value
                continue
            mine, theirs = getattr(first, "dtype", None), getattr(value, "dtype", None)
            if mine is not None and type(first) is type(value) and mine == theirs:
                continue
            a, b = dtype_of(first), dtype_of(value)
            if a != b:
                if _PARTS.get(a, a) != _PARTS.get(b, b):
                    raise ValueError(f"Invalid usage of {_torch_or('tensors', 'arrays')} with different dtypes"
                                     f"Found {_printed_dtype(first)} and  {_printed_dtype(value)}")
                mixed = True
    return mixed


def as_parts(value: Any) -> Any:
    """A complex tensor as one of its parts, in place; anything else as it is."""
    if dtype_of(value) not in _PARTS:
        return value
    if hasattr(value, "is_conj"):
        import torch
        return torch.view_as_real(value)
    import numpy
    whole: Any = numpy.asarray(value)
    return whole[..., None].view(whole.real.dtype)


def is_complex(value: Any) -> bool:
    """Its elements are complex numbers."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and "complex" in str(dtype)


def octets_of(value: Any) -> Any:
    """The bytes of a torch tensor, in place, as a tensor: for messages, where its element type does not count. None where
    it has none that lie in a row."""
    torch = sys.modules.get("torch")
    if torch is None or type(value) not in (torch.Tensor, torch.nn.Parameter) or not value.is_contiguous():
        return None
    try:
        return value.detach().view(torch.uint8)
    except RuntimeError:
        return None


def shape_of(value: Any) -> tuple[int, ...]:
    """Extents, the outermost first."""
    shape: Any = getattr(value, "shape", None)
    if shape is None:
        with memoryview(value) as view:
            shape = view.shape
    return tuple(int(extent) for extent in shape)


def count_of(value: Any) -> int:
    """Number of elements."""
    return _tutti.count(value)


def splits_of(given: Any, side: str) -> list[int]:
    """Split sizes of any kind as a list, which is empty where none were given: a list, a tuple, an array, an iterator."""
    if given is None:
        return []
    if isinstance(given, (bytes, dict)):
        raise TypeError(f"split sizes for the {side} are a list of whole numbers, not {type(given).__name__}")
    sizes = []
    for split in given:
        if not hasattr(split, "__index__") or not -1 << 63 <= split.__index__() < 1 << 63:
            raise TypeError(f"a split size of {split!r} for the {side}; it must be a whole number of 64 bits")
        sizes.append(split.__index__())
    return sizes


def split_counts(value: Any, splits: Sequence[int] | None, size: int, side: str) -> list[int]:
    """The numbers of elements behind splits of the outermost extent; None splits it evenly."""
    shape = shape_of(value)
    if not shape:
        raise InvalidArgument(f"all_to_all_single: the {side} has no dimensions, so it cannot be split")
    row = 1
    for extent in shape[1:]:
        row *= extent
    if str(getattr(value, "dtype", "")) == "torch.complex32":  # counted as their parts, float16
        row *= 2
    if splits is None or len(splits) == 0:
        if shape[0] % size != 0:
            raise InvalidArgument(f"Tensor's dim 0 does not divide equally across group size: {shape[0]} rows of the "
                                  f"{side} among {size} ranks; give split sizes")
        return [shape[0] // size * row] * size
    if len(splits) != size:
        raise InvalidArgument(f"Number of tensor splits not equal to group size: {len(splits)} for the {side}, "
                              f"{size} ranks")
    for split in splits:
        if split < 0:
            raise InvalidArgument(f"a split size of {split} for the {side}; it must not be negative")
    if sum(splits) != shape[0]:
        raise InvalidArgument(f"Split sizes doesn't match total dim 0 size: the {side} has {shape[0]} rows, the splits "
                              f"sum up to {sum(splits)}")
    return [split * row for split in splits]
