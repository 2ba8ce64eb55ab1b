"""Inputs of programs: awkward values, of every element type, in every layout."""

import math

from arrays import torch

FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTEGERS = ["uint8", "int8", "int32", "int64"]
# Those that all of gloo's operations take; the cells have the others.
TAKEN = ["uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"]


def dtype_of(name):
    return getattr(torch, name)


def bits(name, count=16, rank=0):
    """Elements of any bits: NaN with payloads, infinities, denormals, extreme integers."""
    dtype = dtype_of(name)
    width = torch.empty(0, dtype=dtype).element_size()
    octets = (torch.arange(count * width) * 37 + 11 * rank + 120).to(torch.uint8)
    if name == "bool":
        octets = octets % 2
    return octets.view(dtype)


def mixed(name, rank=0):
    """Zeros of both signs, infinities, NaN and small numbers; other ones meet on each number of ranks."""
    numbers = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0, 2.0], dtype=torch.float64)
    return numbers.roll(3 * rank).to(dtype_of(name))


def extremes(name):
    """Alike on all ranks, so that the order of additions does not count."""
    dtype = dtype_of(name)
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        return torch.tensor([info.max, info.min, info.tiny, info.smallest_normal * info.eps, 1.0, 0.0, -0.0], dtype=dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([info.max, info.min, 0, 1, info.max - 1, info.min + 1], dtype=dtype)


def with_one_nan(tensor):
    """Of NaN only that it is one: which bits it has is said in docs/reference/semantics.md."""
    return torch.where(torch.isnan(tensor), torch.full_like(tensor, float("nan")), tensor)


def whole(rank, *shape, dtype=torch.float32):
    """Numbers that differ from element to element and from rank to rank, small enough to be exact."""
    return (torch.arange(math.prod(shape)) % 50 + 60 * rank).to(dtype).reshape(shape)


# By name: a tensor of 2 x 3 x 4 elements, or fewer, that is laid out in a way of its own.
LAYOUTS = {
    "plain": lambda rank: whole(rank, 2, 3, 4),
    "transposed": lambda rank: whole(rank, 4, 3, 2).permute(2, 1, 0),
    "stepped": lambda rank: whole(rank, 4, 6, 4)[::2, ::2],
    "inside": lambda rank: whole(rank, 4, 5, 6)[1:3, 1:4, 1:5],
    "column": lambda rank: whole(rank, 6, 5)[:, 2],
    "offset": lambda rank: whole(rank, 30)[6:],
    "channels_last": lambda rank: whole(rank, 2, 3, 2, 2).contiguous(memory_format=torch.channels_last),
    "one_of_many": lambda rank: whole(rank, 5, 5)[2:3, 3:4],
    "scalar": lambda rank: whole(rank).reshape(()),
    "scalar_inside": lambda rank: whole(rank, 5)[3],
    "nothing": lambda rank: whole(rank, 0),
    "no_rows": lambda rank: whole(rank, 0, 3),
    "no_columns": lambda rank: whole(rank, 3, 0),
    "nothing_inside": lambda rank: whole(rank, 4, 5)[2:2],
    "many_dimensions": lambda rank: whole(rank, 1, 2, 1, 3, 1, 2, 1),
}
DENSE = ("plain", "offset", "scalar", "scalar_inside", "nothing", "no_rows", "no_columns", "nothing_inside",
         "many_dimensions", "one_of_many")
