"""Arrays in memory that the other ranks of the host can read."""

from collections.abc import Sequence
from importlib import import_module
from math import prod
from operator import index
from sys import maxsize
from typing import Any, SupportsIndex

from tutti.distributed.process_group import AnyGroup, is_non_member, member_group


def empty(shape: int | Sequence[int], dtype: Any = "float32", group: AnyGroup = None) -> Any:
    """An array of zeros in memory that the other ranks of this host can read. There broadcast, all_gather, gather,
    scatter and all_to_all read an input of more than 32 KiB where it lies, and copy it once and not twice; every call
    takes it, as any array. On other backends, and beyond 29 GiB on a rank, it is ordinary memory.

    Returns a torch tensor if `dtype` is one of torch's, else a NumPy array. It may outlive the group; with the last
    array on it its memory goes back to the system. A child of a fork shares it with its parent."""
    sizes = (index(shape),) if isinstance(shape, SupportsIndex) else tuple(map(index, shape))
    if any(size < 0 for size in sizes):
        raise ValueError(f"empty: a shape has no negative sizes, and this one is {sizes}")
    pg = None if is_non_member(group) else member_group(group, "empty")
    if pg is None:
        raise ValueError("empty: this process is not in the group")
    of_torch = type(dtype).__module__ == "torch"
    library = import_module("torch" if of_torch else "numpy")
    dtype = dtype if of_torch else library.dtype(dtype)
    # A size beyond any number of bytes is refused as one for which there is no memory.
    memory = pg._low.alloc(min(prod(sizes) * dtype.itemsize, maxsize))
    return library.frombuffer(memory, dtype=dtype).reshape(sizes) if len(memory) else library.empty(sizes, dtype=dtype)
