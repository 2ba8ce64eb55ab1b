"""Arguments of the collectives, checked before torch converts them: its errors tell of C++ types."""

from typing import Any

import torch

from .._reduce_ops import OPS as EVERY_OP, op_name

OPS = {name: EVERY_OP[name] for name in ("sum", "avg")}  # no other has a gradient here
BACKWARDS = ("sum", "avg", "own")


def check_tensor(call: str, tensor: object) -> None:
    """TypeError if it is no tensor."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{call}: a torch.Tensor is needed, not a {type(tensor).__name__}")


def checked_op(call: str, op: Any) -> str:
    """The name of the op; TypeError or ValueError if it is neither the sum nor the average."""
    return op_name(call, op, OPS)


def check_root(call: str, root: object) -> None:
    """TypeError if it is no number."""
    if not isinstance(root, int):
        raise TypeError(f"{call}: a rank is needed, not a {type(root).__name__}")


def check_backward(call: str, backward: object) -> None:
    """ValueError if it is none of the three."""
    if backward not in BACKWARDS:
        raise ValueError(f"{call}: backward is 'sum', 'avg' or 'own', not {backward!r}")


def checked_splits(call: str, name: str, splits: Any) -> list[int]:
    """Them as a list; TypeError if they are no numbers."""
    found = list(splits)
    for one in found:
        if not isinstance(one, (int, torch.SymInt)):
            raise TypeError(f"{call}: {name} has whole numbers, not a {type(one).__name__}")
    return found
