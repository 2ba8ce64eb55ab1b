"""Reduce ops by their names: the schemas of operators have strings, and programs may have torch's ReduceOp."""

from collections.abc import Mapping
from typing import Any, Literal, get_args

import torch.distributed as dist

Op = Literal["sum", "avg", "product", "min", "max", "band", "bor", "bxor"]
OPS: dict[str, Any] = {name: getattr(dist.ReduceOp, name.upper()) for name in get_args(Op)}


def op_name(call: str, op: Any, known: Mapping[str, Any]) -> str:
    """The name of the op, which may be a name or a ReduceOp; TypeError, or ValueError if it is not among `known`."""
    if isinstance(op, str):
        found = op
    elif isinstance(op, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
        found = next((name for name, one in OPS.items() if op == one), str(op))
    else:
        raise TypeError(f"{call}: op is a name or a ReduceOp, not a {type(op).__name__}")
    if found not in known:
        *first, last = map(repr, known)
        raise ValueError(f"{call}: op is {', '.join(first)} or {last}, not {found!r}")
    return found
