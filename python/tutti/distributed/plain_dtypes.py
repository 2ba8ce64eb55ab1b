"""NumPy's dtypes in pickles of plain data. Their states are of a peer's choice, and NumPy believes every state."""

import pickle
import re
import sys
from typing import Any

from tutti.distributed.limits import Limits, refused
from tutti.distributed.plain import call_refused

_NAME = re.compile(r"[biufcSUVOmM][0-9]{0,9}")  # not T: a string of NumPy's is an address
_DATETIME_UNITS = {"Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"}
_ALIGNED = 0x80  # the flag of a structured dtype with the fields where C has them
_DEEPEST = 32  # dtypes in dtypes: their hashes and comparisons call themselves
_MOST = 1 << 16  # parts, each counted wherever it stands


def make_dtype(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    """A call of numpy.dtype: of a short name, or of a class of ml_dtypes."""
    if not 1 <= len(args) <= 3 or any(type(each) not in (bool, int) or each not in (0, 1) for each in args[1:]):
        raise call_refused(function)
    named = type(args[0]) is str and _NAME.fullmatch(args[0])
    if not named and not (isinstance(args[0], type) and args[0].__module__.partition(".")[0] == "ml_dtypes"):
        raise call_refused(function)
    made = function(args[0], *map(bool, args[1:]))
    if not named and made.isbuiltin != 2:
        raise call_refused(function)
    return made


def parts_of(dtype: Any) -> int:
    """How many dtypes it is made of. UnpicklingError if they are too many, or nest too deep."""
    count, left = 0, [(dtype, 1)]
    while left:
        part, depth = left.pop()
        count += 1
        if depth > _DEEPEST or count > _MOST:
            raise refused("has a dtype of dtypes without end")
        if part.subdtype is not None:
            left.append((part.subdtype[0], depth + 1))
        elif part.names is not None:
            count += len(part.fields) - len(part.names)  # titles
            left.extend((part.fields[name][0], depth + 1) for name in part.names[:_MOST])
    return count


def dtype_of_state(limits: Limits, kind: Any, state: Any) -> Any:
    """The dtype that `kind.__setstate__(state)` shall be, made by NumPy's own constructor, which checks
    what __setstate__ believes: flags, offsets, sizes."""
    try:
        made = _dtype_of_state(limits, kind, state)
    except pickle.UnpicklingError:
        raise
    except Exception as problem:
        raise refused(f"has a dtype that cannot be ({type(problem).__name__})") from None
    limits.copy(parts_of(made))
    return made


def _dtype_of_state(limits: Limits, kind: Any, state: Any) -> Any:
    import numpy
    if type(state) is not tuple or len(state) not in (8, 9):
        raise refused("has a dtype with a strange state")
    _, order, subarray, names, fields, itemsize, _, flags = state[:8]
    if type(itemsize) is not int or type(flags) is not int:
        raise refused("has a dtype with a strange state")
    more = state[8] if len(state) == 9 else None
    unit = None
    if kind.kind in "mM":
        if type(more) is not tuple or len(more) != 2:
            raise refused("has a datetime without its unit")
        more, unit = more
    if subarray is not None:
        made = _subarray(subarray)
    elif names is not None or fields is not None:
        made = _structure(limits, names, fields, itemsize, bool(flags & _ALIGNED))
    else:
        made = _simple(kind, order, unit)
    if made.kind != kind.kind or itemsize not in (-1, made.itemsize):
        raise refused("has a dtype with other sizes than its own")
    if more:
        if type(more) is not dict or not all(map(_is_note, more)) or not all(map(_is_note_or_notes, more.values())):
            raise refused("has a dtype with strange metadata")
        limits.copy(4 * (len(more) + sum(len(each) for each in more.values() if type(each) is dict)))
        made = numpy.dtype(made, metadata={name: dict(each) if type(each) is dict else each
                                           for name, each in more.items()})
    return made


def _is_note(value: Any) -> bool:
    """True for a value that metadata may have: no container, since dtypes end without a trashcan."""
    return type(value) in (str, bytes, bool, int, float, type(None)) or isinstance(value, type)


def _is_note_or_notes(value: Any) -> bool:
    if type(value) is dict:
        return all(map(_is_note, value)) and all(map(_is_note, value.values()))
    return _is_note(value)


def _simple(kind: Any, order: Any, unit: Any) -> Any:
    import numpy
    made = kind
    if unit is not None:
        if type(unit) is not tuple or len(unit) != 4:
            raise refused("has a datetime with a strange unit")
        name, count, parts, _ = unit
        name = name.decode() if type(name) is bytes else name
        if name != "generic":
            if name not in _DATETIME_UNITS or type(count) is not int or not 0 < count < 1 << 31 or parts != 1:
                raise refused("has a datetime with a strange unit")
            made = numpy.dtype(f"{kind.kind}8[{count}{name}]")
    if type(order) is not str or order not in ("<", ">", "|", "="):
        raise refused("has a dtype with a strange order of bytes")
    foreign = ">" if sys.byteorder == "little" else "<"
    return made.newbyteorder(foreign) if order == foreign else made


def _subarray(subarray: Any) -> Any:
    import numpy
    if type(subarray) is not tuple or len(subarray) != 2:
        raise refused("has a dtype with a strange subarray")
    base, shape = subarray
    shape = (shape,) if type(shape) is int else shape
    if not isinstance(base, numpy.dtype) or type(shape) is not tuple or any(type(n) is not int for n in shape):
        raise refused("has a dtype with a strange subarray")
    return numpy.dtype((base, shape))


def _structure(limits: Limits, names: Any, fields: Any, itemsize: int, align: bool) -> Any:
    import numpy
    if type(names) is not tuple or type(fields) is not dict or any(type(each) is not str for each in names):
        raise refused("has a dtype with strange names")
    parts: list[Any] = [fields.get(name) for name in names]
    for part in parts:
        if (type(part) is not tuple or len(part) not in (2, 3) or not isinstance(part[0], numpy.dtype)
                or type(part[1]) is not int or (len(part) == 3 and type(part[2]) not in (str, type(None)))):
            raise refused("has a dtype with strange fields")
    # NumPy compares each field of objects with all others.
    limits.work(len(parts) * (1 + sum(bool(part[0].hasobject) for part in parts)))
    description: dict[str, Any] = {"names": list(names), "formats": [part[0] for part in parts],
                                   "offsets": [part[1] for part in parts], "itemsize": itemsize}
    if any(len(part) > 2 for part in parts):
        description["titles"] = [part[2] if len(part) > 2 else None for part in parts]
    made: Any = numpy.dtype  # its stubs know no dict of a text and anything
    return made(description, align=align)
