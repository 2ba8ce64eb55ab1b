"""Objects as bytes: pickle's protocol 5, with big buffers beside it instead of in it.

First comes a head of a fixed size. It says how many buffers there are and how long the body is, and it holds the body if that
fits, as that of a small object does: then one message has carried the object. Else the body follows. The body is the sizes of
the buffers and the pickle, and the buffers come last.
"""

import io
import mmap
import pickle
import struct
import sys
from collections.abc import Sequence
from typing import Any

from tutti.distributed.tensor_pickles import TensorReducer
from tutti.errors import Error, InvalidArgument

_BIG = 1 << 16  # bytes from which on a buffer travels by itself, uncopied
_MOST = 1 << 46  # no size beyond this is believed
_FAILED = (1 << 64) - 1  # in the place of the number of buffers: the body is the reason why there is no pickle
_MOST_REASON = 4096  # bytes
_INSIDE = 496  # bytes of body that the head holds
_HEAD = struct.Struct(f"<QQ{_INSIDE}s")  # number of buffers, bytes of body, the body or its beginning
HEAD_BYTES = _HEAD.size


class Packed:
    """One object as it is sent: the head, and the rest in the order in which it follows. Of an object that cannot be
    pickled, the reason, which travels in the place of the pickle: the other ranks wait for something."""

    __slots__ = ("head", "body", "late", "buffers", "rest", "problem")

    def __init__(self, value: Any) -> None:
        self.buffers: list[memoryview] = []
        self.problem: Exception | None = None  # why it cannot be pickled
        try:
            # Without torch no tensor can be in it, and the plain function takes a third of the time.
            body = (_pickled if "torch" in sys.modules else pickle.dumps)(value, 5, buffer_callback=self._beside)
        except Exception as problem:
            self._fail(problem)
            return
        if self.buffers:
            body = b"".join(buffer.nbytes.to_bytes(8, "little") for buffer in self.buffers) + body
        self._set(len(self.buffers), body)

    @staticmethod
    def all_or_none(values: Sequence[Any]) -> "list[Packed]":
        """One for each value; where one of them cannot be pickled, none of them is sent, and all tell why."""
        packed = [Packed(value) for value in values]
        problem = next((one.problem for one in packed if one.problem is not None), None)
        if problem is not None:
            for one in packed:
                one._fail(problem)
        return packed

    def _fail(self, problem: Exception) -> None:
        import traceback  # noqa: PLC0415: only here

        self.problem, self.buffers = problem, []
        self._set(_FAILED, traceback.format_exception_only(problem)[-1].strip().encode(errors="replace")[:_MOST_REASON])

    def _set(self, buffers: int, body: bytes) -> None:
        self.body = body
        self.late = len(body) > _INSIDE  # it follows the head
        self.head = _HEAD.pack(buffers, len(body), body)
        self.rest: list[Any] = [body, *self.buffers] if self.late else self.buffers

    def check(self) -> None:
        """Raises the problem, on the rank that has it. Called when the others have been told."""
        if self.problem is not None:
            raise self.problem

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


class Arriving:
    """An object of which something follows the head, or a reason; and memory for what follows. Error if the head says what
    cannot be."""

    __slots__ = ("body", "late", "_failed", "_buffers", "_parts")

    def __init__(self, buffers: int, size: int, inside: bytes) -> None:
        self._failed = buffers == _FAILED and size <= _MOST_REASON  # the body is a reason
        self._buffers = 0 if self._failed else buffers
        if size > _MOST or size == 0 or 8 * self._buffers >= size:
            raise Error(f"object collective: a peer announced {buffers} buffers and {size} bytes, which cannot be")
        self.late = size > _INSIDE  # the body follows
        self.body: Any = room(size) if self.late else inside[:size]
        self._parts: list[Any] = []

    def make_room(self) -> list[Any]:
        """Memory for the buffers, whose sizes the body has."""
        self._parts = [room(size) for size in read_sizes(memoryview(self.body), self._buffers)]
        return self._parts

    def check_reason(self, operation: str, rank: int) -> None:
        """InvalidArgument if the global rank `rank` has sent the reason why it could not pickle its object."""
        if not self._failed:
            return
        problem = InvalidArgument(f"{operation}: rank {rank} could not pickle its object: "
                                  f"{bytes(self.body).decode(errors='replace')}; the group stays usable")
        problem.culprit = rank
        raise problem

    def value(self) -> Any:
        """The object. It runs what its sender wants."""
        return pickle.loads(memoryview(self.body)[8 * len(self._parts):], buffers=self._parts)


def read_heads(heads: Any) -> list[bytes | Arriving]:
    """The objects of these heads: the pickle of each that the head has carried whole."""
    return [inside[:size] if buffers == 0 and 0 < size <= _INSIDE else Arriving(buffers, size, inside)
            for buffers, size, inside in _HEAD.iter_unpack(heads)]


def read_sizes(body: Any, buffers: int) -> list[int]:
    """The sizes of the buffers, from the head of the body."""
    sizes = [int.from_bytes(body[8 * i:8 * i + 8], "little") for i in range(buffers)]
    for size in sizes:
        if not _BIG <= size <= _MOST:
            raise Error(f"object collective: a peer announced a buffer of {size} bytes, which cannot be")
    if sum(sizes) > _MOST:
        raise Error(f"object collective: a peer announced buffers of {sum(sizes)} bytes, which cannot be")
    return sizes


def room(size: int) -> Any:
    """Writable memory of that many bytes. Where a peer only announces much, none of it is touched."""
    numpy = sys.modules.get("numpy")
    try:
        if size < _BIG:
            return bytearray(size)
        return mmap.mmap(-1, size) if numpy is None else numpy.empty(size, numpy.uint8)
    except (MemoryError, OSError, OverflowError):
        raise Error(f"object collective: no memory for an object of {size} bytes") from None


def _pickled(value: Any, protocol: int, buffer_callback: Any) -> bytes:
    """As pickle.dumps, by our pickler."""
    out = io.BytesIO()
    _Pickler(out, protocol, buffer_callback=buffer_callback).dump(value)
    return out.getvalue()


class _Pickler(pickle.Pickler):
    """Lets plain torch tensors hand out their memory, as NumPy's arrays do."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._reduce_tensor = TensorReducer()

    def reducer_override(self, value: Any) -> Any:
        return self._reduce_tensor(value)
