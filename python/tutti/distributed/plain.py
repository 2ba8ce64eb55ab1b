"""What a pickle of plain data may do beyond naming its classes: calls and states of a peer's choice are
checked here, since NumPy believes every state that it is given."""

import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

_DATETIME_UNITS = {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"}
_ALIGNED = 0x80  # the flag of a structured dtype with the fields where C has them
_NEVER_CALLED = (bool, int, float, str, list, tuple, dict)  # a pickle has opcodes for their values


def refused(what: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(f"weights_only: the object {what}, which no pickle of plain data does")


def check_call(function: Any, args: Any) -> None:
    """UnpicklingError for a call that plain data needs never, and that may take all memory or time:
    bytes(10**15), list(range(10**15)), Fraction("1e999999999")."""
    name = getattr(function, "__qualname__", repr(function))
    if type(args) is not tuple:
        raise refused(f"calls {name} with {type(args).__name__} for its arguments")
    if any(type(each) is range for each in args):
        raise refused(f"calls {name} with a range")
    if args and function in _NEVER_CALLED:
        raise refused(f"calls {name}")
    if function in (bytes, bytearray) and args and type(args[0]) not in (bytes, bytearray, str):
        raise refused(f"calls {name} with {type(args[0]).__name__}")
    if name == "Fraction" and any(type(each) is str and not set(each) <= set("+-0123456789/") for each in args):
        raise refused(f"calls Fraction with {str(args)[:80]}")
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return
    if function is numpy.ndarray:
        raise refused("calls ndarray")
    if function is numpy.dtype and not (args and isinstance(args[0], (str, type))):
        raise refused("calls dtype with something else than a name or a class")


def reconstruct(found: Callable[..., Any], kind: Any, shape: Any, dtype: Any) -> Any:
    """NumPy's _reconstruct: an empty array, which gets its state later."""
    import numpy
    if kind is not numpy.ndarray or shape != (0,):
        raise refused("makes an array that is not empty")
    return found(kind, shape, dtype)


def scalar(found: Callable[..., Any], dtype: Any, data: Any = None) -> Any:
    """NumPy's scalar: of bytes, or for structures with objects of an array of one."""
    import numpy
    if type(data) is bytes and isinstance(dtype, numpy.dtype) and not dtype.hasobject:
        return found(dtype, data)
    if type(data) is numpy.ndarray and dtype == data.dtype and data.shape == ():
        return data[()]
    raise refused("makes a scalar of something else than its bytes")


def from_buffer(found: Callable[..., Any], buffer: Any, dtype: Any, *rest: Any) -> Any:
    """NumPy's _frombuffer: bytes are no addresses of objects."""
    import numpy
    if not isinstance(dtype, numpy.dtype) or dtype.hasobject:
        raise refused("makes objects of bytes")
    return found(buffer, dtype, *rest)


CHECKED: dict[str, Callable[..., Any]] = {"_reconstruct": reconstruct, "scalar": scalar, "_frombuffer": from_buffer}


def check_array_state(array: Any, state: Any) -> None:
    """For an array that is still empty: as many bytes, or objects, as its shape has room for."""
    if array.size != 0 or array.base is not None:
        raise refused("gives an array its state twice")
    if type(state) is not tuple or len(state) not in (4, 5):
        raise refused("has an array with a strange state")
    shape, dtype, _, data = state[-4:]
    shape = (shape,) if type(shape) is int else shape
    if type(shape) is not tuple or any(type(extent) is not int or extent < 0 for extent in shape):
        raise refused("has an array with a strange shape")
    count = math.prod(shape)
    if dtype.hasobject:
        fits = type(data) is list and len(data) == count
    else:
        fits = type(data) in (bytes, bytearray) and len(data) == count * dtype.itemsize
    if not fits:
        raise refused(f"has an array of shape {shape} and dtype {dtype} with other data than that")


def dtype_of_state(kind: Any, state: Any) -> Any:
    """The dtype that `kind.__setstate__(state)` shall be, made by NumPy's own constructor, which checks
    what __setstate__ believes: flags, offsets, sizes."""
    try:
        return _dtype_of_state(kind, state)
    except pickle.UnpicklingError:
        raise
    except Exception as problem:
        raise refused(f"has a dtype that cannot be ({problem})") from problem


def _dtype_of_state(kind: Any, state: Any) -> Any:
    import numpy
    if type(state) is not tuple or len(state) not in (8, 9):
        raise refused("has a dtype with a strange state")
    _, order, subarray, names, fields, itemsize, _, flags = state[:8]
    more = state[8] if len(state) == 9 else None
    unit = None
    if kind.kind in "mM":
        if type(more) is not tuple or len(more) != 2:
            raise refused("has a datetime without its unit")
        more, unit = more
    if subarray is not None:
        made = _subarray(subarray)
    elif names is not None or fields is not None:
        made = _structure(names, fields, itemsize, bool(flags & _ALIGNED))
    else:
        made = _simple(kind, order, unit)
    if made.kind != kind.kind or itemsize not in (-1, made.itemsize):
        raise refused(f"has a dtype {made} with other sizes than that")
    if more:
        if type(more) is not dict:
            raise refused("has a dtype with strange metadata")
        made = numpy.dtype(made, metadata=more)
    return made


def _simple(kind: Any, order: str, unit: Any) -> Any:
    import numpy
    made = kind
    if unit is not None:
        name, count, parts, _ = unit
        name = name.decode() if type(name) is bytes else name
        if name != "generic":
            if name not in _DATETIME_UNITS or type(count) is not int or parts != 1:
                raise refused("has a datetime with a strange unit")
            made = numpy.dtype(f"{kind.kind}8[{count}{name}]")
    if order not in ("<", ">", "|", "="):
        raise refused("has a dtype with a strange order of bytes")
    foreign = ">" if sys.byteorder == "little" else "<"
    return made.newbyteorder(foreign) if order == foreign else made


def _subarray(subarray: Any) -> Any:
    import numpy
    base, shape = subarray
    shape = (shape,) if type(shape) is int else shape
    if not isinstance(base, numpy.dtype) or type(shape) is not tuple or any(type(n) is not int for n in shape):
        raise refused("has a dtype with a strange subarray")
    return numpy.dtype((base, shape))


def _structure(names: Any, fields: Any, itemsize: Any, align: bool) -> Any:
    import numpy
    parts = [fields[name] for name in names]
    if not all(isinstance(part[0], numpy.dtype) and type(part[1]) is int for part in parts):
        raise refused("has a dtype with strange fields")
    description: dict[str, Any] = {"names": list(names), "formats": [part[0] for part in parts],
                                   "offsets": [part[1] for part in parts], "itemsize": itemsize}
    if any(len(part) > 2 for part in parts):
        description["titles"] = [part[2] if len(part) > 2 else None for part in parts]
    return numpy.dtype(description, align=align)
