"""Unpickling bytes that are not trusted: plain data, arrays and tensors."""

import collections
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tutti.distributed import plain, plain_arrays, plain_dtypes
from tutti.distributed.limits import Limits, refused
from tutti.distributed.tensor_pickles import DTYPES

_CALLS = plain.CALLS | plain_arrays.CALLS
# Names that stand for themselves; to be called they have to be in the table of calls.
_NAMES = {
    "builtins": {"bool", "int", "float", "str", "bytes", "bytearray", "list", "tuple", "dict", "set", "frozenset"},
    "uuid": {"UUID"},
    "numpy": {"ndarray"},
    "torch": DTYPES,
}
_CLASSES_OF = {"numpy.dtypes", "ml_dtypes"}  # all of their classes
_LONGEST_NAME = 200
_added: dict[tuple[str, str], Any] = {}


def add_safe_globals(safe: Iterable[Any]) -> None:
    """Classes and functions that `weights_only` shall allow as well. They are called with what the peer
    sends: allow only what can do no harm with any arguments."""
    for each in safe:
        if not hasattr(each, "__module__") or not hasattr(each, "__qualname__"):
            raise TypeError(f"add_safe_globals: {each!r} is no class and no function")
        _added[(each.__module__, each.__qualname__)] = each


def clear_safe_globals() -> None:
    """Forget all that was given to add_safe_globals."""
    _added.clear()


def _is_added(value: Any) -> bool:
    return any(value is each for each in _added.values())


def read_safely(body: Any, buffers: Sequence[Any]) -> Any:
    """The object of a pickle with its buffers. UnpicklingError if it is no pickle of plain data."""
    return _SafeUnpickler(io.BytesIO(body), buffers).load()


class _Memo(dict[int, Any]):
    """The unpickler's memory, which knows where in it a dtype stands."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[int, int] = {}  # by address

    def __setitem__(self, place: int, value: Any) -> None:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.dtype):
            self._places[id(value)] = place
        super().__setitem__(place, value)

    def replace(self, old: Any, new: Any) -> None:
        """`new` where `old` was put last; a pickler puts it to one place."""
        place = self._places.pop(id(old), None)
        if place is not None and self[place] is old:
            self[place] = new


class _Opcodes(dict[int, Callable[[Any], None]]):
    """Those that are read."""

    def __missing__(self, opcode: int) -> Callable[[Any], None]:
        raise refused(f"has the opcode {bytes([opcode])!r}")


class _SafeUnpickler(pickle._Unpickler):
    """Calls nothing but what stands in the tables, gives no state to what would believe it, and changes nothing but
    lists, sets and dicts. Python's own unpickler, not C's, since only its opcodes can be guarded."""

    dispatch = _Opcodes()  # filled below with those that today's picklers write

    # Private parts of pickle's class, declared for the type checker.
    stack: list[Any]
    metastack: list[list[Any]]
    read: Callable[[int], bytes]
    append: Callable[[Any], None]
    load_newobj: Callable[[], None]
    load_newobj_ex: Callable[[], None]
    load_readonly_buffer: Callable[[], None]
    load_frozenset: Callable[[], None]
    load_append: Callable[[], None]
    load_appends: Callable[[], None]
    load_setitem: Callable[[], None]
    load_setitems: Callable[[], None]
    load_additems: Callable[[], None]
    load_build: Callable[[], None]

    def __init__(self, file: io.BytesIO, buffers: Sequence[Any]) -> None:
        super().__init__(file, fix_imports=False, buffers=buffers)
        self._limits = Limits(file.getbuffer().nbytes, buffers)
        self.memo: _Memo = _Memo()
        self._makers: dict[int, tuple[Any, Any, Any]] = {}  # by address: what, its module and name, its maker

    def load(self) -> Any:
        try:
            value = super().load()
            self._limits.check_ends()
            return value
        except (pickle.UnpicklingError, ImportError):
            self._limits.take_apart()
            raise
        except Exception as problem:  # of bytes that are no pickle, or of a class that refuses its arguments
            self._limits.take_apart()
            # Only a text is shown: to print anything else that came may take for ever.
            text = problem.args[0] if problem.args and type(problem.args[0]) is str else ""
            raise pickle.UnpicklingError(f"weights_only: the object cannot be read: {type(problem).__name__} "
                                         f"{text[:_LONGEST_NAME]}") from None

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _added:
            return _added[(module, name)]
        maker = _CALLS.get((module, name))
        known = maker is not None or name in _NAMES.get(module, ())
        if known or (module in _CLASSES_OF and "." not in name and not name.startswith("_")):
            found = super().find_class(module, name)
            if known or isinstance(found, type):
                self._makers[id(found)] = found, (module, name), maker
                return found
        raise pickle.UnpicklingError(
            f"weights_only: the object wants {module[:_LONGEST_NAME]}.{name[:_LONGEST_NAME]}, which is not plain "
            f"data; if any of your peers may call it with any arguments, allow it with "
            f"tutti.distributed.add_safe_globals([{name[:_LONGEST_NAME]}])")

    def get_extension(self, code: int) -> None:
        """An extension of copyreg, looked up by its name and not by its number, which may have changed."""
        key = pickle._inverted_registry.get(code)  # type: ignore[attr-defined]
        if key is None:
            raise refused("has an extension that is not registered")
        self.append(self.find_class(*key))

    def _load_reduce(self) -> None:
        args = self.stack.pop()
        function = self.stack[-1]
        if type(args) is not tuple:
            raise refused(f"calls with {type(args).__name__} for its arguments")
        if _is_added(function):
            self.stack[-1] = function(*args)
            return
        _, _, maker = self._makers.get(id(function), (None, None, None))
        if maker is None:
            raise plain.call_refused(function)
        self.stack[-1] = maker(self._limits, function, args)

    def _load_newobj(self) -> None:
        kind, args = self.stack[-2:]
        if not _is_added(kind):
            _, name, _ = self._makers.get(id(kind), (None, None, None))
            if name not in plain.NEW or args != ():
                raise plain.call_refused(kind)
        self.load_newobj()

    def _load_newobj_ex(self) -> None:
        if not _is_added(self.stack[-3]):
            raise plain.call_refused(self.stack[-3])
        self.load_newobj_ex()

    def _load_bytearray8(self) -> None:
        size = int.from_bytes(self.read(8), "little")
        if size > self._limits.size:
            raise refused(f"announces {size} bytes")
        self.append(bytearray(self.read(size)))

    def _load_readonly_buffer(self) -> None:
        if not self._limits.is_source(self.stack[-1]):
            raise refused("makes a view of something else than bytes")
        self.load_readonly_buffer()

    def _load_frozenset(self) -> None:
        self._limits.keys(None, self.stack)
        self.load_frozenset()
        self._limits.made(self.stack[-1])

    def _target(self, container: Any, kinds: tuple[type, ...]) -> None:
        if type(container) not in kinds and not _is_added(type(container)):
            raise refused(f"puts elements into {type(container).__name__}")

    def _load_append(self) -> None:
        self._target(self.stack[-2], plain.LISTS)
        self.load_append()

    def _load_appends(self) -> None:
        self._target(self.metastack[-1][-1], plain.LISTS)
        self.load_appends()

    def _load_setitem(self) -> None:
        self._set(self.stack[-3], self.stack[-2:])
        self.load_setitem()

    def _load_setitems(self) -> None:
        self._set(self.metastack[-1][-1], self.stack)
        self.load_setitems()

    def _set(self, container: Any, items: list[Any]) -> None:
        self._target(container, plain.DICTS)
        self._limits.keys(container, items[::2])

    def _load_additems(self) -> None:
        container = self.metastack[-1][-1]
        self._target(container, plain.SETS)
        self._limits.keys(container, self.stack)
        self.load_additems()

    def _load_build(self) -> None:
        state, target = self.stack[-1], self.stack[-2]
        numpy = sys.modules.get("numpy")
        kind = type(target)
        if _is_added(kind):
            self.load_build()
        elif numpy is not None and isinstance(target, numpy.dtype):
            self.stack.pop()
            self.stack[-1] = made = plain_dtypes.dtype_of_state(self._limits, target, state)
            self.memo.replace(target, made)
        elif numpy is not None and kind is numpy.ndarray:
            self.stack[-1] = plain_arrays.array_state(self._limits, target, state)
            self.load_build()
        elif self._makers.get(id(kind), (None, None, None))[1] == ("uuid", "UUID"):
            plain.check_uuid_state(state)
            self.load_build()
        elif kind is collections.OrderedDict:
            plain.check_module_state(state)
            self.load_build()
        else:
            raise refused(f"gives a state to {target if isinstance(target, type) else kind}")


def _then_count(load: Callable[[Any], None]) -> Callable[[Any], None]:
    def counted(self: Any) -> None:
        load(self)
        self._limits.made(self.stack[-1])

    return counted


# As they are: these make values of the pickle's own bytes, or move what is on the stack and in the memo.
for _opcode in (
        pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.POP, pickle.POP_MARK, pickle.NONE, pickle.NEWTRUE,
        pickle.NEWFALSE, pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1, pickle.LONG4, pickle.BINFLOAT,
        pickle.SHORT_BINBYTES, pickle.BINBYTES, pickle.BINBYTES8, pickle.SHORT_BINUNICODE, pickle.BINUNICODE,
        pickle.BINUNICODE8, pickle.EMPTY_TUPLE, pickle.EMPTY_LIST, pickle.EMPTY_DICT, pickle.EMPTY_SET, pickle.BINGET,
        pickle.LONG_BINGET, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.GLOBAL, pickle.STACK_GLOBAL,
        pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER):
    _SafeUnpickler.dispatch[_opcode[0]] = pickle._Unpickler.dispatch[_opcode[0]]
for _opcode in (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3):
    _SafeUnpickler.dispatch[_opcode[0]] = _then_count(pickle._Unpickler.dispatch[_opcode[0]])
_OWN: dict[bytes, Any] = {
    pickle.REDUCE: _SafeUnpickler._load_reduce, pickle.NEWOBJ: _SafeUnpickler._load_newobj,
    pickle.NEWOBJ_EX: _SafeUnpickler._load_newobj_ex, pickle.BUILD: _SafeUnpickler._load_build,
    pickle.BYTEARRAY8: _SafeUnpickler._load_bytearray8,
    pickle.READONLY_BUFFER: _SafeUnpickler._load_readonly_buffer,
    pickle.FROZENSET: _SafeUnpickler._load_frozenset, pickle.APPEND: _SafeUnpickler._load_append,
    pickle.APPENDS: _SafeUnpickler._load_appends, pickle.SETITEM: _SafeUnpickler._load_setitem,
    pickle.SETITEMS: _SafeUnpickler._load_setitems, pickle.ADDITEMS: _SafeUnpickler._load_additems}
_SafeUnpickler.dispatch.update({opcode[0]: load for opcode, load in _OWN.items()})
del _opcode
