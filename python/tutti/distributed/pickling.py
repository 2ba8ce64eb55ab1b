"""Objects as bytes: pickle's protocol 5, with big buffers beside it instead of in it."""

import functools
import io
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from tutti.distributed import plain
from tutti.errors import Error

_BIG = 1 << 16  # bytes from which on a buffer travels by itself, uncopied
_DEEPEST = 5000  # tuples in tuples; pickle itself writes fewer
_MOST = 1 << 46  # no size beyond this is believed


class Packed:
    """One object: the pickle with the sizes of its buffers before it, and the buffers."""

    def __init__(self, value: Any) -> None:
        self.buffers: list[memoryview] = []
        out = io.BytesIO()
        _Pickler(out, self._beside).dump(value)
        sizes = b"".join(buffer.nbytes.to_bytes(8, "little") for buffer in self.buffers)
        self.body = sizes + out.getvalue()
        self.meta = len(self.buffers).to_bytes(8, "little") + len(self.body).to_bytes(8, "little")

    def _beside(self, buffer: pickle.PickleBuffer) -> bool:
        """False: it travels by itself."""
        try:
            raw = buffer.raw()
        except BufferError:  # strided: pickle copies it
            return True
        if raw.nbytes < _BIG:
            return True
        self.buffers.append(raw)
        return False


META_BYTES = 16


def read_meta(meta: Any) -> tuple[int, int]:
    """How many buffers, how many bytes of body. Error for what cannot be."""
    buffers = int.from_bytes(meta[:8], "little")
    body = int.from_bytes(meta[8:16], "little")
    if body > _MOST or body == 0 or 8 * buffers >= body:
        raise Error(f"object collective: a peer announced {buffers} buffers and {body} bytes, which cannot be")
    return buffers, body


def read_sizes(body: Any, buffers: int) -> list[int]:
    """The sizes of the buffers, from the head of the body."""
    sizes = [int.from_bytes(body[8 * i:8 * i + 8], "little") for i in range(buffers)]
    for size in sizes:
        if not _BIG <= size <= _MOST:
            raise Error(f"object collective: a peer announced a buffer of {size} bytes, which cannot be")
    return sizes


def room(size: int) -> Any:
    """Writable memory of that many bytes."""
    numpy = sys.modules.get("numpy")
    try:
        return bytearray(size) if numpy is None or size < _BIG else numpy.empty(size, numpy.uint8)
    except MemoryError:
        raise Error(f"object collective: no memory for an object of {size} bytes") from None


def unpack(body: Any, buffers: Sequence[Any], weights_only: bool) -> Any:
    """The object. With `weights_only` only plain data, arrays and tensors may be in it."""
    pickled = memoryview(body)[8 * len(buffers):]
    if weights_only:
        return SafeUnpickler(io.BytesIO(pickled), buffers=buffers).load()
    return pickle.loads(pickled, buffers=buffers)


class _Pickler(pickle.Pickler):
    """Lets plain torch tensors hand out their memory, as NumPy's arrays do."""

    def __init__(self, file: io.BytesIO, beside: Any) -> None:
        super().__init__(file, protocol=5, buffer_callback=beside)
        self._torch = sys.modules.get("torch")
        self._seen: dict[int, Any] = {}  # by address: tensors that share memory still do afterwards

    def reducer_override(self, value: Any) -> Any:
        torch = self._torch
        if torch is None or type(value) is not torch.Tensor:
            return NotImplemented
        if (value.device.type != "cpu" or value.layout is not torch.strided or not value.is_contiguous()
                or value.is_conj() or value.is_neg() or value.is_quantized or value.grad_fn is not None
                or value.numel() * value.element_size() < _BIG
                or value.untyped_storage().nbytes() != value.numel() * value.element_size()):
            return NotImplemented
        plain = value.detach()
        dtype, shape = str(plain.dtype).removeprefix("torch."), tuple(plain.shape)
        first = self._seen.setdefault(plain.data_ptr(), value)
        if first is not value:
            return _same_memory, (first, dtype, shape, value.requires_grad)
        octets = plain.reshape(-1).view(torch.uint8).numpy()
        return _tensor, (pickle.PickleBuffer(octets), dtype, shape, value.requires_grad)


def _tensor(octets: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    import torch
    if memoryview(octets).readonly:
        octets = bytearray(octets)
    made = torch.frombuffer(octets, dtype=_torch_dtype(dtype)).reshape(shape)
    return made.requires_grad_() if requires_grad else made


def _same_memory(first: Any, dtype: str, shape: tuple[int, ...], requires_grad: bool) -> Any:
    made = first.detach().reshape(-1).view(_torch_dtype(dtype)).reshape(shape)
    return made.requires_grad_() if requires_grad else made


def _torch_dtype(name: str) -> Any:
    import torch
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise pickle.UnpicklingError(f"{name!r} is no dtype of torch")
    return dtype


_SAFE: dict[str, set[str] | None] = {
    "builtins": {"bool", "int", "float", "complex", "str", "bytes", "bytearray", "list", "tuple", "dict", "set",
                 "frozenset", "slice", "range", "object"},
    "collections": {"OrderedDict", "deque", "Counter", "defaultdict"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "uuid": {"UUID"},
    "numpy": {"ndarray", "dtype"},
    "numpy.dtypes": None,  # all: classes of dtypes
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.numeric": {"_frombuffer"},
    "ml_dtypes": None,
    "torch": {"Size", "device"},
    __name__: {"_tensor", "_same_memory"},
}
_added: dict[tuple[str, str], Any] = {}


def add_safe_globals(safe: Iterable[Any]) -> None:
    """Classes and functions that `weights_only` shall allow as well. They are called with what the peer
    sends: allow only what can do no harm with any arguments."""
    for each in safe:
        _added[(each.__module__, each.__qualname__)] = each


def clear_safe_globals() -> None:
    """Forget what add_safe_globals was told."""
    _added.clear()


class _Memo(dict[int, Any]):
    """The unpickler's memory, which knows where in it a dtype stands."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[int, list[int]] = {}  # by address; what stands here lives as long as the memo

    def __setitem__(self, place: int, value: Any) -> None:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.dtype):
            self._places.setdefault(id(value), []).append(place)
        super().__setitem__(place, value)

    def replace(self, old: Any, new: Any) -> None:
        """`new` wherever `old` stands."""
        for place in self._places.pop(id(old), []):
            if self[place] is old:
                self[place] = new


def _then_check_depth(load: Callable[[Any], None]) -> Callable[[Any], None]:
    def checked(self: Any) -> None:
        load(self)
        self._check_depth()

    return checked


class SafeUnpickler(pickle._Unpickler):
    """Reads plain data, arrays and tensors; runs nothing that a peer names, and gives no state to what
    would believe it. Python's own unpickler, not C's, since only its opcodes can be guarded."""

    # What pickle keeps to itself, for who checks types.
    stack: list[Any]
    read: Callable[[int], bytes]
    append: Callable[[Any], None]
    load_reduce: Callable[[], None]
    load_newobj: Callable[[], None]
    load_newobj_ex: Callable[[], None]
    load_build: Callable[[], None]
    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = dict(pickle._Unpickler.dispatch)

    def __init__(self, file: io.BytesIO, *, buffers: Iterable[Any]) -> None:
        super().__init__(file, buffers=buffers)
        self._size = file.getbuffer().nbytes
        self.memo: _Memo = _Memo()
        self._depths: dict[int, int] = {}  # of tuples in tuples, by address

    def load(self) -> Any:
        try:
            return super().load()
        except (pickle.UnpicklingError, ImportError):
            raise
        except Exception as problem:  # of bytes that are no pickle, or of a class that refuses its arguments
            raise pickle.UnpicklingError(f"weights_only: the object cannot be read: {type(problem).__name__}: "
                                         f"{problem}") from problem

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _added:
            return _added[(module, name)]
        names = _SAFE.get(module, set())
        if (names is None or name in names) and "." not in name and not name.startswith("__"):
            found = super().find_class(module, name)
            if name in plain.CHECKED:
                return functools.partial(plain.CHECKED[name], found)
            if names is not None or isinstance(found, type):
                return found
        raise pickle.UnpicklingError(
            f"weights_only: the object wants {module}.{name}, which is not plain data; if any of your peers may call "
            f"it with any arguments, allow it with tutti.distributed.add_safe_globals([{name}])")

    def _check_call(self, function: Any, args: Any) -> None:
        if not any(function is each for each in _added.values()):
            plain.check_call(function, args)

    def _load_reduce(self) -> None:
        self._check_call(self.stack[-2], self.stack[-1])
        self.load_reduce()

    def _load_newobj(self) -> None:
        self._check_call(self.stack[-2], self.stack[-1])
        self.load_newobj()

    def _load_newobj_ex(self) -> None:
        if self.stack[-1] and not any(self.stack[-3] is each for each in _added.values()):
            raise plain.refused("names arguments")
        self._check_call(self.stack[-3], self.stack[-2])
        self.load_newobj_ex()

    def _instantiate(self, klass: Any, args: Any) -> None:
        self._check_call(klass, tuple(args))
        super()._instantiate(klass, args)  # type: ignore[misc]

    def _check_depth(self) -> None:
        """Of tuples in tuples: their hash calls itself without a limit, as keys of a dict for example."""
        made = self.stack[-1]
        depth = 1 + max((self._depths.get(id(each), 1) for each in made if type(each) in (tuple, frozenset)), default=0)
        if depth > _DEEPEST:
            raise plain.refused(f"nests more than {_DEEPEST} tuples")
        if depth > 1:
            self._depths[id(made)] = depth
        else:
            self._depths.pop(id(made), None)  # of one that is gone and lay there

    def _load_bytearray8(self) -> None:
        size = int.from_bytes(self.read(8), "little")
        if size > self._size:
            raise plain.refused(f"announces {size} bytes")
        self.append(bytearray(self.read(size)))

    def _load_build(self) -> None:
        state, target = self.stack[-1], self.stack[-2]
        numpy = sys.modules.get("numpy")
        if any(type(target) is each for each in _added.values()):
            self.load_build()
        elif numpy is not None and isinstance(target, numpy.dtype):
            self.stack.pop()
            self.stack[-1] = made = plain.dtype_of_state(target, state)
            self.memo.replace(target, made)
        elif numpy is not None and type(target) is numpy.ndarray:
            plain.check_array_state(target, state)
            self.load_build()
        elif type(target).__name__ == "UUID" and type(target).__module__ == "uuid" and type(state) is dict:
            self.load_build()
        else:
            raise plain.refused(f"gives a state to {target if isinstance(target, type) else type(target)}")

    for _opcode in (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.FROZENSET):
        dispatch[_opcode[0]] = _then_check_depth(dispatch[_opcode[0]])
    del _opcode
    dispatch[pickle.REDUCE[0]] = _load_reduce
    dispatch[pickle.NEWOBJ[0]] = _load_newobj
    dispatch[pickle.NEWOBJ_EX[0]] = _load_newobj_ex
    dispatch[pickle.BYTEARRAY8[0]] = _load_bytearray8
    dispatch[pickle.BUILD[0]] = _load_build
