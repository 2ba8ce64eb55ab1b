"""Messages of unknown size: they are found first and received then, as by MPI_Mprobe."""

import array
import sys
from typing import Any

from tutti import _tutti
from tutti._times import Timeout
from tutti.distributed.p2p import _moved
from tutti.distributed.process_group import AnyGroup, ProcessGroup, global_rank_of, is_non_member, member_group, sender_in_group
from tutti.distributed.tensors import check_single, known

_ARRAY_CODES = {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q",
                "uint64": "Q", "float32": "f", "float64": "d"}


def room_for(dtype: str, numel: int) -> Any:
    """A new array: of torch if the program has loaded it, else of NumPy if it is installed, else one of `array`."""
    torch = sys.modules.get("torch")
    if torch is not None:
        element = getattr(torch, "float8_e4m3fn" if dtype == "float8_e4m3" else dtype, None)
        if element is not None:
            return torch.empty(numel, dtype=element)
    try:
        import numpy
    except ImportError:
        if dtype in _ARRAY_CODES:
            code = _ARRAY_CODES[dtype]
            return array.array(code, bytes(numel * array.array(code).itemsize))
    else:
        if dtype not in ("bfloat16", "float8_e4m3", "float8_e5m2"):
            return numpy.empty(numel, dtype)
    raise TypeError(f"no library that is loaded has arrays of {dtype}; give a tensor to receive into")


class Message:
    """A message that `probe` has found. It belongs to this object: no other recv or probe gets it, on no thread. One
    that is dropped before its recv goes back to its place among its sender's messages."""

    def __init__(self, pg: ProcessGroup, low: _tutti.Message) -> None:
        self._low = low
        self._source = global_rank_of(pg, low.source)

    @property
    def source(self) -> int:
        """The sender's global rank."""
        return self._source

    @property
    def tag(self) -> int:
        """The tag that it was sent with."""
        return self._low.tag

    @property
    def dtype(self) -> str:
        """The name of its element type: "float32". On the backend mpi "uint8": a message of MPI tells its bytes only."""
        return self._low.dtype

    @property
    def numel(self) -> int:
        """How many elements it has; on the backend mpi, bytes."""
        return self._low.numel

    def recv(self, tensor: Any = None, *, timeout: Timeout = None) -> Any:
        """Receive it, into a tensor of its dtype and number of elements or into a new one with one dimension: of torch
        if the program has loaded torch, else of NumPy if it is installed, else an array.array. Returns the tensor.
        With a tensor that does not fit it raises InvalidArgument, and the message can still be received."""
        if tensor is None:
            tensor = room_for(self.dtype, self.numel)
        elif type(tensor) not in known:
            check_single(tensor, "tensor")
        _moved(lambda each, _, tag, timeout: self._low.recv(each, timeout=timeout), tensor, None, None, timeout)
        return tensor

    def __repr__(self) -> str:
        return f"Message(source={self.source}, tag={self.tag}, dtype={self.dtype!r}, numel={self.numel})"


def probe(src: int | None = None, group: AnyGroup = None, tag: int | None = 0, group_src: int | None = None, *,
          timeout: Timeout = None) -> Message:
    """Wait for a message from one rank, or from any, and take it without its bytes: the Message tells sender, dtype and
    size, and receives it. `src` is a global rank, `group_src` one of the group; a `tag` of None is any. ValueError
    outside of the group."""
    pg = _member_group(group, "probe")
    return Message(pg, pg._low.probe(sender_in_group(pg, src, group_src), tag=tag, timeout=timeout))


def iprobe(src: int | None = None, group: AnyGroup = None, tag: int | None = 0, group_src: int | None = None, *,
           timeout: Timeout = None) -> Message | None:
    """As probe, without waiting: None if no such message has come. It takes the arguments of `probe`, whose timeout has
    no meaning here."""
    pg = _member_group(group, "iprobe")
    low = pg._low.try_probe(sender_in_group(pg, src, group_src), tag=tag, timeout=timeout)
    return None if low is None else Message(pg, low)


def _member_group(group: AnyGroup, operation: str) -> ProcessGroup:
    pg = None if is_non_member(group) else member_group(group, operation)
    if pg is None:
        raise ValueError(f"{operation}: this process is not in the group")
    return pg

