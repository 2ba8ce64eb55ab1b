"""How values of different ranks are combined."""

import enum
import warnings
from typing import Any, TypeAlias

from tutti import _tutti
from tutti.distributed.tensors import is_tensor
from tutti.distributed.user_ops import UserOp
from tutti.errors import InvalidArgument


class RedOpType(enum.Enum):
    """The plain operations; `ReduceOp.SUM`, `ReduceOp.AVG` and so on are these."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
    UNUSED = 9

    def __init__(self, value: int) -> None:
        # Attributes, because every call reads them: what the C++ face wants, and the factor.
        self.low: Any = getattr(_tutti.ReduceOp, self._name_, None)
        self.factor: Any = None
        self.pair = None if self._name_ in ("PREMUL_SUM", "UNUSED") else (self.low, None)

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Boxed):
            return other.op is self and other.factor is None
        return self is other

    def __hash__(self) -> int:
        return self.value


class _ReduceOpMeta(type):
    """Makes `isinstance(ReduceOp.SUM, ReduceOp)` true."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, RedOpType) or super().__instancecheck__(instance)


class _Boxed:
    """One operation, perhaps with a factor."""

    __slots__ = ("op", "low", "factor")

    def __init__(self, op: "RedOpType | _Boxed", factor: Any = None) -> None:
        if not isinstance(op, (RedOpType, _Boxed)):
            raise TypeError(f"ReduceOp takes one of its own members, such as ReduceOp.SUM, not {op!r}")
        self.op: RedOpType = op if isinstance(op, RedOpType) else op.op
        self.low: Any = op.low
        self.factor: Any = factor if factor is not None else op.factor

    @property
    def name(self) -> str:
        return self.op.name

    @property
    def value(self) -> int:
        return int(self.op)

    def __int__(self) -> int:
        return int(self.op)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RedOpType):
            return self.factor is None and self.op is other
        if isinstance(other, _Boxed):
            return self.op is other.op and self.factor is other.factor
        return NotImplemented

    def __hash__(self) -> int:
        return int(self.op)

    def __copy__(self) -> "_Boxed":
        return type(self)(self.op, self.factor)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Boxed":
        return type(self)(self.op, self.factor)

    def __reduce__(self) -> Any:
        if self.factor is not None:
            raise TypeError("a pre-multiplied sum cannot be pickled: its factor belongs to this process")
        return (type(self), (self.op,))

    def __str__(self) -> str:
        return str(self.op)

    def __repr__(self) -> str:
        factor = "" if self.factor is None else f", factor={self.factor!r}"
        return f"ReduceOp({self.op.name}{factor})"


class ReduceOp(_Boxed, metaclass=_ReduceOpMeta):
    """SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, and the pre-multiplied sum that `premul_sum` makes."""

    __slots__ = ()

    RedOpType = RedOpType
    SUM = RedOpType.SUM
    AVG = RedOpType.AVG
    PRODUCT = RedOpType.PRODUCT
    MIN = RedOpType.MIN
    MAX = RedOpType.MAX
    BAND = RedOpType.BAND
    BOR = RedOpType.BOR
    BXOR = RedOpType.BXOR
    PREMUL_SUM = RedOpType.PREMUL_SUM
    UNUSED = RedOpType.UNUSED


Op: TypeAlias = RedOpType | ReduceOp | UserOp | _tutti.ReduceOp
"""How the values of ranks are combined, in a call: a ReduceOp, premul_sum(factor), or a UserOp."""


def premul_sum(factor: Any) -> ReduceOp:
    """The sum of what each rank has, multiplied by its own factor: a number, or an array of one
    element or as many as the tensor has, of the tensor's dtype. Factors may differ between ranks."""
    if isinstance(factor, bool) or not (hasattr(factor, "__float__") or isinstance(factor, complex) or is_tensor(factor)):
        raise TypeError(f"the factor of a pre-multiplied sum is a number or an array, not {factor!r}")
    return ReduceOp(RedOpType.PREMUL_SUM, float(factor) if isinstance(factor, int) else factor)


_NO_COMPLEX = frozenset({RedOpType.MAX, RedOpType.MIN, RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR})


def supports_complex(reduceOp: Any) -> bool:
    """True if complex numbers can be combined by it."""
    return plain(reduceOp) not in _NO_COMPLEX


def plain(op: Any) -> RedOpType:
    """The operation without its factor; TypeError if it is no operation."""
    if isinstance(op, RedOpType):
        return op
    if isinstance(op, _Boxed):
        return op.op
    if isinstance(op, _tutti.ReduceOp):
        return RedOpType[op.name]
    if isinstance(op, UserOp):
        raise InvalidArgument(f"{op!r} combines in all_reduce, reduce, reduce_scatter and reduce_scatter_single of "
                              f"tutti.distributed only")
    raise TypeError(f"Invalid function argument. Expected parameter `op` of type ReduceOp but got {type(op)} "
                    f"instead; use ReduceOp.SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR, premul_sum(factor) or a UserOp")


def low_of(op: Any) -> tuple[Any, Any]:
    """The arguments of the C++ bindings: the operation and the factor."""
    if type(op) is RedOpType and op.pair is not None:
        return op.pair
    kind = plain(op)
    if kind is RedOpType.UNUSED:
        raise ValueError("ReduceOp.UNUSED combines nothing; use ReduceOp.SUM or another")
    factor = op.factor if isinstance(op, _Boxed) else None
    if kind is RedOpType.PREMUL_SUM and factor is None:
        raise ValueError("ReduceOp.PREMUL_SUM needs a factor: make it with premul_sum(factor)")
    return kind.low, factor


class _DeprecatedReduceOp:
    """The name of the first releases: works, and warns at each use."""

    _members = {op.name: op for op in RedOpType if op is not RedOpType.UNUSED}

    def __getattr__(self, name: str) -> RedOpType:
        if name not in self._members:
            raise AttributeError(f"reduce_op has no {name!r}")
        warnings.warn("`tutti.distributed.reduce_op` is deprecated, please use `tutti.distributed.ReduceOp` "
                      "instead", category=FutureWarning, stacklevel=2)
        return self._members[name]

    def __dir__(self) -> list[str]:
        return list(self._members)


reduce_op = _DeprecatedReduceOp()
