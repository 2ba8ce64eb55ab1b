"""Reduce ops of the caller's: Python functions that combine the tensors of ranks."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tutti import _tutti
from tutti._times import Timeout
from tutti.errors import InvalidArgument

if TYPE_CHECKING:  # it imports logging, which takes a third as long as all of this
    from concurrent.futures import Executor


class UserOp:
    """A reduce op of the caller's, as `op` of all_reduce, reduce and the reduce_scatter family; MPI has MPI_Op_create.

    `function(a, b)` gives a combined with b, element by element; it may change `a` and return it. Both are flat arrays
    of the kind and dtype that the call has: NumPy arrays, torch tensors, else memoryviews. They are the function's own.
    How many elements come in one call is not said, but a multiple of `block`: so many that follow each other are never
    divided (4: matrices of 2 x 2). Inputs are combined in the order of the ranks, ((0, 1), 2), 3 and so on, so the
    function need be neither commutative nor associative, and all ranks get the same bits.

    Name:    all ranks must give an op of the same name and block, else the call is a DisagreementError. That the
             functions are the same nobody can compare.
    Threads: when the tensors of all ranks have come, the function runs on the thread that called the operation; with
             async_op=True on the one that waits for the Work or asks whether it is done, or, where neither does but a
             future or callback wants it or the Work was dropped, on the thread of callbacks. In `executor` instead, if
             there is one, as soon as they have come. No lock of tutti is held meanwhile, and the GIL is the
             function's. It may start operations and wait for them, but not for its own.
    Errors:  what the function raises comes out of the call or of `wait` on that rank, whose tensor stays as it was.
             Other ranks get their results, and the group goes on.
    """

    __slots__ = ("name", "function", "block", "executor")

    def __init__(self, name: str, function: Callable[[Any, Any], Any], *, block: int = 1,
                 executor: "Executor | None" = None) -> None:
        if not isinstance(name, str) or not name or any("\ud800" <= c <= "\udfff" for c in name):
            raise InvalidArgument(f"UserOp: the name is a text that ranks compare, not {name!r}")
        if not callable(function):
            raise TypeError(f"UserOp: the function cannot be called: {function!r}")
        if executor is not None and not callable(getattr(executor, "submit", None)):
            raise TypeError(f"UserOp: an executor has submit(function), as those of concurrent.futures; not {executor!r}")
        if isinstance(block, bool) or not hasattr(block, "__index__") or not 1 <= int(block) < 1 << 32:
            raise InvalidArgument(f"UserOp: the block is a number of elements, at least one, not {block!r}")
        block = int(block)
        _tutti.know_op(name, block)
        self.name, self.function, self.block, self.executor = name, function, block, executor

    def __repr__(self) -> str:
        return f"UserOp({self.name!r}, {self.function!r})"


class _Combine:
    """Calls the function of an op with the bytes that the C++ face has."""

    __slots__ = ("op", "array")

    def __init__(self, op: UserOp, like: Any) -> None:
        self.op = op
        self.array = _maker(like)

    def __call__(self, result: memoryview, next: memoryview) -> None:
        # Copies: the function may keep its arguments, and that memory ends with the call.
        given, other = self.array(bytearray(result)), self.array(bytearray(next))
        dtype, count = _form(given)  # which the function may change
        made = self.op.function(given, other)
        if type(made) is not type(given) or _form(made) != (dtype, count):
            raise TypeError(f"the op {self.op.name!r} gave {_told(made)}; it must give {type(given).__name__} of {count} "
                            f"elements of {dtype}, as its arguments are")
        whole = self.array(result)
        try:
            if isinstance(whole, memoryview):
                whole[:] = made if made.ndim == 1 else memoryview(made.tobytes()).cast(made.format)
            elif hasattr(whole, "copy_"):
                whole.copy_(made.detach().reshape(-1))
            else:
                whole[:] = made.reshape(-1)
        finally:
            del whole  # or the traceback of an exception would keep it


def _maker(like: Any) -> Callable[[Any], Any]:
    """Makes a flat array over bytes, of the kind and dtype of another one."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return lambda octets: torch.frombuffer(octets, dtype=like.dtype)
    if hasattr(like, "dtype") or not _is_buffer(like):
        import numpy
        dtype = getattr(like, "dtype", None)
        if not isinstance(dtype, numpy.dtype):
            dtype = numpy.from_dlpack(like).dtype
        return lambda octets: numpy.frombuffer(octets, dtype=dtype)
    with memoryview(like) as view:
        code: Any = view.format.lstrip("<=@")  # ctypes names the order of bytes, which is ours
    try:
        memoryview(b"").cast(code)
    except ValueError:
        raise TypeError(f"an op has no memoryviews of elements of the format {code!r}: give an array of NumPy") from None
    return lambda octets: memoryview(octets).cast(code)


def _is_buffer(value: Any) -> bool:
    try:
        memoryview(value).release()
    except TypeError:
        return False
    return True


def _form(array: Any) -> tuple[Any, int]:
    """Dtype and number of elements."""
    if isinstance(array, memoryview):
        return array.format, array.nbytes // array.itemsize
    return array.dtype, array.numel() if hasattr(array, "numel") else array.size


def _told(array: Any) -> str:
    try:
        dtype, count = _form(array)
    except AttributeError:
        return type(array).__name__
    return f"{type(array).__name__} of {count} elements of {dtype}"


def _arguments(op: UserOp, like: Any, timeout: Timeout, async_op: bool) -> dict[str, Any]:
    """What the C++ face wants of the op."""
    halves = str(getattr(like, "dtype", "")) == "torch.complex32"  # counted as their parts, float16
    return {"name": op.name, "block": op.block * 2 if halves else op.block, "combine": _Combine(op, like),
            "executor": op.executor, "timeout": timeout, "async_op": async_op}


def all_reduce_by(low: _tutti.ProcessGroup, tensor: Any, op: UserOp, timeout: Timeout, async_op: bool
                  ) -> _tutti.Work | None:
    """all_reduce of a group by such an op."""
    return low._all_reduce_by(tensor, **_arguments(op, tensor, timeout, async_op))


def reduce_by(low: _tutti.ProcessGroup, tensor: Any, root: int, op: UserOp, timeout: Timeout, async_op: bool
              ) -> _tutti.Work | None:
    """reduce of a group by such an op."""
    return low._reduce_by(tensor, root, **_arguments(op, tensor, timeout, async_op))


def reduce_scatter_by(low: _tutti.ProcessGroup, output: Any, input: Any, op: UserOp, timeout: Timeout,
                      async_op: bool) -> _tutti.Work | None:
    """reduce_scatter of a group by such an op; `input` is a tensor or a list of them."""
    return low._reduce_scatter_by(output, input, **_arguments(op, output, timeout, async_op))
