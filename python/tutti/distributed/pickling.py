"""Objects as bytes: pickle's protocol 5, with big buffers beside it instead of in it."""

import io
import mmap
import pickle
import sys
from collections.abc import Sequence
from typing import Any

from tutti.distributed.safe import read_safely
from tutti.errors import Error

_BIG = 1 << 16  # bytes from which on a buffer travels by itself, uncopied
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


def unpack(body: Any, buffers: Sequence[Any], weights_only: bool) -> Any:
    """The object. With `weights_only` only plain data, arrays and tensors may be in it."""
    pickled = memoryview(body)[8 * len(buffers):]
    if weights_only:
        return read_safely(pickled, buffers)
    return pickle.loads(pickled, buffers=buffers)


class _Pickler(pickle.Pickler):
    """Lets plain torch tensors hand out their memory, as NumPy's arrays do."""

    def __init__(self, file: io.BytesIO, beside: Any) -> None:
        super().__init__(file, protocol=5, buffer_callback=beside)
        # A folder of that name may lie where Python looks for modules, and be one without anything in it.
        self._torch = sys.modules.get("torch") if hasattr(sys.modules.get("torch"), "Tensor") else None
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
    octets = memoryview(bytearray(octets) if memoryview(octets).readonly else octets)
    # torch keeps what it is given, and only a view keeps a bytearray from moving when it grows.
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
