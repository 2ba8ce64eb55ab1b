"""Arrays and tensors in pickles of plain data: NumPy and torch believe every buffer, shape and state."""

import collections
import math
import sys
from typing import Any

from tutti.distributed.limits import Limits, refused
from tutti.distributed.plain import Maker, call_refused, fits, plainly
from tutti.distributed.plain_dtypes import make_dtype, parts_of
from tutti.distributed.tensor_pickles import DTYPES

_DIMENSIONS = 64
_LARGEST = (1 << 63) - 1
# The types that elements of a structure have in a list.
_NUMBERS = (bool, int, float, complex)


def _is_shape(shape: Any) -> bool:
    return (type(shape) is tuple and len(shape) <= _DIMENSIONS
            and all(type(extent) is int and 0 <= extent <= _LARGEST for extent in shape))


def _reconstruct(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    """An empty array, which gets its state later."""
    import numpy
    if not fits(args, ((type,), (tuple,), (bytes,)), 3) or args[0] is not numpy.ndarray or args[1:] != ((0,), b"b"):
        raise refused("makes an array that is not empty")
    return function(*args)


def _scalar(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    """Of bytes, or for structures with objects of an array of one."""
    import numpy
    if len(args) == 2 and isinstance(args[0], numpy.dtype) and args[0].subdtype is None:
        dtype, data = args
        if type(data) is bytes and not dtype.hasobject:
            limits.copy(len(data))
            return function(dtype, data)
        if type(data) is numpy.ndarray and data.shape == ():
            limits.work(parts_of(dtype))
            if dtype == data.dtype:
                made = data[()]
                return limits.bare(made, [data]) if isinstance(made, numpy.void) else made
    raise refused("makes a scalar of something else than its bytes")


def _from_buffer(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    """Bytes are no addresses of objects, and addresses of objects are no bytes."""
    import numpy
    if not 4 <= len(args) <= 5:
        raise call_refused(function)
    buffer, dtype, shape, order = args[:4]
    if not limits.is_source(buffer) or not isinstance(dtype, numpy.dtype) or dtype.hasobject:
        raise refused("makes an array of something else than bytes")
    axes = args[4] if len(args) == 5 else None
    if not _is_shape(shape) or type(order) is not str or not (axes is None or _is_shape(axes)):
        raise call_refused(function)
    return function(*args)


def _describes(args: tuple[Any, ...]) -> bool:
    """Something, and a tensor's dtype, shape, whether it requires grad, and its strides, which torch compares with the
    memory that there is."""
    if not fits(args[1:], ((str,), (tuple,), (bool,), (tuple,)), 3) or args[1] not in DTYPES or not _is_shape(args[2]):
        return False
    strides = args[4] if len(args) == 5 else None
    return (math.prod(extent or 1 for extent in args[2]) <= _LARGEST >> 4
            and (strides is None or (_is_shape(strides) and len(strides) == len(args[2]) and sum(
                max(extent - 1, 0) * step for extent, step in zip(args[2], strides)) <= _LARGEST >> 4)))


def _tensor(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    if not _describes(args) or not limits.is_source(args[0]):
        raise call_refused(function)
    view = memoryview(args[0])
    if view.readonly:
        limits.copy(view.nbytes)
    return function(*args)


def _same_memory(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    if not _describes(args) or not _is_tensor(args[0]):
        raise call_refused(function)
    return function(*args)


def _parameter(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    """A tensor that a module of torch's learns."""
    if not fits(args[1:], ((bool,), (collections.OrderedDict,)), 2) or args[2] or not _is_tensor(args[0]):
        raise call_refused(function)
    return function(*args)


def _is_tensor(value: Any) -> bool:
    """One of torch's; never imports it."""
    return type(value) is getattr(sys.modules.get("torch"), "Tensor", None)


def _size(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    if not fits(args, ((tuple,),), 1) or not _is_shape(args[0]):
        raise call_refused(function)
    return function(*args)


CALLS: dict[tuple[str, str], Maker] = {
    ("numpy", "dtype"): make_dtype,
    ("torch", "Size"): _size,
    ("torch", "device"): plainly((str,), (int,), least=1),
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("tutti.distributed.tensor_pickles", "tensor"): _tensor,
    ("tutti.distributed.tensor_pickles", "same_memory"): _same_memory,
}
for _core in ("numpy._core", "numpy.core"):
    CALLS[(_core + ".multiarray", "_reconstruct")] = _reconstruct
    CALLS[(_core + ".multiarray", "scalar")] = _scalar
    CALLS[(_core + ".numeric", "_frombuffer")] = _from_buffer


def array_state(limits: Limits, array: Any, state: Any) -> Any:
    """The state for an array that is still empty: as many bytes, or objects, as its shape has room for."""
    import numpy
    if array.size != 0 or array.base is not None:
        raise refused("gives an array its state twice")
    if type(state) is not tuple or len(state) not in (4, 5):
        raise refused("has an array with a strange state")
    shape, dtype, fortran, data = state[-4:]
    shape = (shape,) if type(shape) is int else shape
    if not _is_shape(shape) or not isinstance(dtype, numpy.dtype) or type(fortran) not in (bool, int):
        raise refused("has an array with a strange shape or dtype")
    count = math.prod(shape)
    if math.prod(extent or 1 for extent in shape) * max(dtype.itemsize, 1) > _LARGEST:
        raise refused("has an array that no memory has room for")
    if dtype.hasobject:
        if type(data) is not list or len(data) != count:
            raise refused(f"has an array of {count} objects with other data than that")
        limits.copy(count)  # bytes that they have in a pickle, at the least
        limits.pad(count * dtype.itemsize)
        limits.bare(array, list(data) if dtype.kind == "O" else _objects_of(limits, dtype, data))
        return 1, shape, dtype, fortran, data
    if type(data) is not bytes or len(data) != count * dtype.itemsize:
        raise refused(f"has an array of {count} elements with other data than that")
    limits.copy(len(data))
    # A copy: the array would share these bytes, and others may rely on them not to change.
    return 1, shape, dtype, fortran, bytes(memoryview(data))


def _objects_of(limits: Limits, dtype: Any, items: list[Any]) -> list[Any]:
    """Those in a list of structures. An element that is no object must have a type that its dtype takes as it is:
    a text is made of anything, and an array of any nested lists."""
    limits.work((parts_of(dtype) + 1) * len(items))
    found: list[Any] = []
    for item in items:
        _take_objects(dtype, item, found)
    return found


def _take_objects(dtype: Any, item: Any, found: list[Any]) -> None:
    import numpy
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        good = type(item) is numpy.ndarray and item.dtype == base and item.shape == shape
        found.append(item)
    elif dtype.names is not None:
        good = type(item) is tuple and len(item) == len(dtype.names)
        if good:
            for name, each in zip(dtype.names, item):
                _take_objects(dtype.fields[name][0], each, found)
    elif dtype.kind == "O":
        good = True
        found.append(item)
    elif dtype.kind in "SV":
        good = type(item) is bytes or (isinstance(item, numpy.generic) and item.dtype == dtype)
    elif dtype.kind == "U":
        good = type(item) is str
    elif dtype.kind in "mM":
        good = item is None or type(item) is int or type(item).__module__ == "datetime" \
            or isinstance(item, (numpy.datetime64, numpy.timedelta64))
    else:
        good = type(item) in _NUMBERS or isinstance(item, (numpy.number, numpy.bool_))
    if not good:
        raise refused("has a structure with another element than its dtype says")
