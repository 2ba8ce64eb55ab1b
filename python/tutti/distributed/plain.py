"""The calls that pickles of plain data make, each with the arguments that they have there. A call that stands in no
table here is not made."""

import collections
import datetime
import re
from collections.abc import Callable
from types import NoneType
from typing import Any

from tutti.distributed.limits import Limits, refused

Maker = Callable[[Limits, Any, tuple[Any, ...]], Any]

_LONGEST = 1 << 16  # bits of a fraction's parts
_FRACTION = re.compile(r"-?[0-9]{1,20000}(/[0-9]{1,20000})?")


def call_refused(function: Any) -> Exception:
    """The error of a pickle that makes a call that is not allowed."""
    return refused(f"calls {getattr(function, '__qualname__', type(function).__name__)} with strange arguments")


def fits(args: tuple[Any, ...], kinds: tuple[tuple[type, ...], ...], least: int) -> bool:
    """Exactly these types, `least` of them at the least."""
    return least <= len(args) <= len(kinds) and all(type(each) in kind for each, kind in zip(args, kinds))


def plainly(*kinds: tuple[type, ...], least: int | None = None) -> Maker:
    """The call itself, if its arguments have these types."""
    def make(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
        if not fits(args, kinds, len(kinds) if least is None else least):
            raise call_refused(function)
        for each in args:
            if type(each) is int:
                limits.work(each.bit_length() ** 2 >> 12)
            elif type(each) in (str, bytes):
                limits.copy(len(each))
        return function(*args)

    return make


def _moment(*kinds: tuple[type, ...]) -> Maker:
    """Of datetime: made again by its own methods, since the bytes of a state are believed."""
    make = plainly((bytes,), *kinds, least=1)
    return lambda limits, function, args: make(limits, function, args).replace()


def _deque(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    if not fits(args, ((tuple, list), (int, NoneType)), 0) or (args and args[0]):
        raise call_refused(function)
    return limits.bare(function(*args))


def _counter(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    if not fits(args, ((dict,),), 0):
        raise call_refused(function)
    for each in args:
        limits.copy(4 * len(each))  # bytes that an entry has in a pickle, at the least
    return function(*args)


def _defaultdict(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    if len(args) > 1 or any(each is not None and not isinstance(each, type) for each in args):
        raise call_refused(function)
    return limits.bare(function(*args))


def _fraction(limits: Limits, function: Any, args: tuple[Any, ...]) -> Any:
    if fits(args, ((int,), (int,)), 2):
        longest = max(each.bit_length() for each in args)
        if longest <= _LONGEST:
            limits.work(longest ** 2 >> 12)
            return function(*args)
    elif fits(args, ((str,),), 1) and _FRACTION.fullmatch(args[0]):
        limits.work(len(args[0]) ** 2 >> 10)
        return function(*args)
    raise call_refused(function)


_ZONE = (datetime.timezone, NoneType)

CALLS: dict[tuple[str, str], Maker] = {
    ("builtins", "complex"): plainly((float, int), (float, int)),
    # No slice holds another: they end without a trashcan.
    ("builtins", "slice"): plainly((int, NoneType), (int, NoneType), (int, NoneType)),
    ("builtins", "range"): plainly((int,), (int,), (int,), least=1),
    ("builtins", "object"): plainly(),
    ("collections", "OrderedDict"): plainly(),
    ("collections", "deque"): _deque,
    ("collections", "Counter"): _counter,
    ("collections", "defaultdict"): _defaultdict,
    ("datetime", "date"): _moment(),
    ("datetime", "datetime"): _moment(_ZONE),
    ("datetime", "time"): _moment(_ZONE),
    ("datetime", "timedelta"): plainly((int,), (int,), (int,)),
    ("datetime", "timezone"): plainly((datetime.timedelta,), (str,), least=1),
    ("decimal", "Decimal"): plainly((str,)),
    ("fractions", "Fraction"): _fraction,
}
NEW = {("builtins", "object"), ("uuid", "UUID")}  # those that are made without a call

# Types that take elements one by one, and no types like them: `+=` of others may do anything.
LISTS = (list, collections.deque)
SETS = (set,)
DICTS = (dict, collections.OrderedDict, collections.Counter, collections.defaultdict)


def check_uuid_state(state: Any) -> None:
    """A number, and how it was made."""
    if (type(state) is not dict or not set(state) <= {"int", "is_safe"} or type(state.get("int")) is not int
            or not 0 <= state["int"] < 1 << 128 or type(state.get("is_safe", 0)) is not int):
        raise refused("has a UUID with a strange state")


def check_module_state(state: Any) -> None:
    """The metadata of a state_dict of torch: the version of each part of a module."""
    if type(state) is not dict or list(state) != ["_metadata"] or type(state["_metadata"]) is not collections.OrderedDict:
        raise refused("gives an OrderedDict a state that no state_dict has")
