"""Objects as bytes: pickle's protocol 5, with big buffers beside it instead of in it."""

import io
import mmap
import pickle
import sys
from collections.abc import Sequence
from typing import Any

from tutti.distributed.tensor_pickles import TensorReducer
from tutti.errors import Error, InvalidArgument

_BIG = 1 << 16  # bytes from which on a buffer travels by itself, uncopied
_MOST = 1 << 46  # no size beyond this is believed
_FAILED = (1 << 64) - 1  # in the place of the number of buffers: the body is the reason why there is no pickle
_MOST_REASON = 4096  # bytes


class Packed:
    """One object: the pickle with the sizes of its buffers before it, and the buffers. Of an object that cannot be
    pickled, the reason, which travels in the place of the pickle: the other ranks wait for something."""

    def __init__(self, value: Any) -> None:
        self.buffers: list[memoryview] = []
        self.problem: Exception | None = None  # why it cannot be pickled
        out = io.BytesIO()
        try:
            _Pickler(out, self._beside).dump(value)
        except Exception as problem:
            self._fail(problem)
            return
        sizes = b"".join(buffer.nbytes.to_bytes(8, "little") for buffer in self.buffers)
        self.body = sizes + out.getvalue()
        self.meta = len(self.buffers).to_bytes(8, "little") + len(self.body).to_bytes(8, "little")

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
        self.body = traceback.format_exception_only(problem)[-1].strip().encode(errors="replace")[:_MOST_REASON]
        self.meta = _FAILED.to_bytes(8, "little") + len(self.body).to_bytes(8, "little")

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


META_BYTES = 16
NO_PICKLE = -1


def read_meta(meta: Any) -> tuple[int, int]:
    """How many buffers, how many bytes of body; `NO_PICKLE` buffers if the body is a reason. Error if the numbers are
    impossible."""
    buffers = int.from_bytes(meta[:8], "little")
    body = int.from_bytes(meta[8:16], "little")
    if buffers == _FAILED and body <= _MOST_REASON:
        return NO_PICKLE, body
    if body > _MOST or body == 0 or 8 * buffers >= body:
        raise Error(f"object collective: a peer announced {buffers} buffers and {body} bytes, which cannot be")
    return buffers, body


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


def rooms(body: Any, buffers: int) -> list[Any]:
    """Memory for the buffers whose sizes the body has; a reason has none."""
    return [room(size) for size in read_sizes(memoryview(body), buffers)]


def read_metas(every: Any, ranks: int) -> list[tuple[int, int]]:
    """What `read_meta` gives, of each rank."""
    return [read_meta(every[META_BYTES * rank:META_BYTES * (rank + 1)]) for rank in range(ranks)]


def check_reason(buffers: int, body: Any, operation: str, rank: int) -> None:
    """InvalidArgument if the global rank `rank` has sent the reason why it could not pickle its object."""
    if buffers != NO_PICKLE:
        return
    problem = InvalidArgument(f"{operation}: rank {rank} could not pickle its object: {bytes(body).decode(errors='replace')}; "
                              f"the group stays usable")
    problem.culprit = rank
    raise problem


def unpack(body: Any, buffers: Sequence[Any]) -> Any:
    """The object. It runs what its sender wants."""
    return pickle.loads(memoryview(body)[8 * len(buffers):], buffers=buffers)


class _Pickler(pickle.Pickler):
    """Lets plain torch tensors hand out their memory, as NumPy's arrays do."""

    def __init__(self, file: io.BytesIO, beside: Any) -> None:
        super().__init__(file, protocol=5, buffer_callback=beside)
        self._reduce_tensor = TensorReducer()

    def reducer_override(self, value: Any) -> Any:
        return self._reduce_tensor(value)
