"""Arrays in memory that the other ranks of the host can read."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tutti.distributed.process_group import AnyGroup, is_non_member, member_group


def empty(shape: int | Sequence[int], dtype: Any = "float32", group: AnyGroup = None) -> Any:
    """An array of zeros in memory that the other ranks of this host can read. There broadcast, all_gather, gather,
    scatter and all_to_all read an input of more than 32 KiB where it lies, and copy it once and not twice; every call
    takes it, as any array. On other backends, and beyond 29 GiB on a rank, it is ordinary memory.

    Returns a torch tensor if `dtype` is one of torch's, else a NumPy array. It may outlive the group; with the last
    array on it its memory goes back to the system. A child of a fork shares it with its parent."""
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in sizes):
        raise ValueError(f"empty: a shape has no negative sizes, and this one is {sizes}")
    pg = None if is_non_member(group) else member_group(group, "empty")
    if pg is None:
        raise ValueError("empty: this process is not in the group")
    if type(dtype).__module__ == "torch":
        import torch
        memory = pg._low.alloc(prod(sizes) * dtype.itemsize)
        return torch.frombuffer(memory, dtype=dtype).reshape(sizes) if len(memory) else torch.empty(sizes, dtype=dtype)
    import numpy
    dtype = numpy.dtype(dtype)
    memory = pg._low.alloc(prod(sizes) * dtype.itemsize)
    return numpy.frombuffer(memory, dtype=dtype).reshape(sizes) if len(memory) else numpy.empty(sizes, dtype=dtype)
