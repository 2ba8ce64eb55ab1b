"""Shapes that fit: where the numbers of elements would do, another shape is a mistake, as in torch.distributed.

Buffers (bytes, bytearray, memoryview, array.array) have no shape that was chosen, and are not looked at. Numbers of
elements that do not fit are left to the operation.
"""

import math
from collections.abc import Iterable
from typing import Any

from tutti.errors import InvalidArgument


def _shown(shape: Iterable[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def check_blocks(operation: str, tensors: Any, like: Any) -> None:
    """InvalidArgument if one of the tensors has as many elements as `like` and another shape. Others differ in size."""
    if isinstance(like, memoryview) or not hasattr(like, "shape") or not isinstance(tensors, (list, tuple)):
        return
    wanted = like.shape
    for index, tensor in enumerate(tensors):
        shape = getattr(tensor, "shape", wanted)
        if shape != wanted and not isinstance(tensor, memoryview) and math.prod(shape) == math.prod(wanted):
            raise InvalidArgument(f"{operation}: invalid tensor size at index {index} (expected {_shown(wanted)}, got "
                                  f"{_shown(shape)})")


def check_whole(operation: str, whole: Any, part: Any, size: int) -> None:
    """InvalidArgument unless `whole` is `size` parts one after the other or stacked, or has another number of elements."""
    if isinstance(whole, memoryview) or isinstance(part, memoryview):
        return
    wanted, shape = getattr(part, "shape", None), getattr(whole, "shape", None)
    if wanted is None or shape is None or shape == (size, *wanted):
        return
    if wanted and shape == (size * wanted[0], *wanted[1:]):
        return
    if math.prod(shape) == size * math.prod(wanted):
        stacked = _shown((size, *wanted))
        joined = f"{_shown((size * wanted[0], *wanted[1:]))} or {stacked}" if wanted else stacked
        raise InvalidArgument(f"{operation}: invalid tensor size at index 0 (expected {_shown(wanted)} of each of {size} "
                              f"ranks, in all {joined}, got {_shown(shape)})")


def check_each(operation: str, blocks: Any, parts: Any, size: int) -> None:
    """The same for several tensors: one of `blocks` for each of `parts`, or `size` rows of them."""
    if len(blocks) == len(parts):
        for whole, part in zip(blocks, parts):
            check_whole(operation, whole, part, size)
        return
    for index, tensor in enumerate(blocks):
        check_blocks(operation, (tensor,), parts[index % len(parts)] if parts else None)


def check_exchange(operation: str, outputs: Any, inputs: Any) -> None:
    """Of all_to_all: the tensors that have as many elements as the first one."""
    if isinstance(outputs, (list, tuple)) and isinstance(inputs, (list, tuple)) and inputs:
        check_blocks(operation, [*inputs, *outputs], inputs[0])
