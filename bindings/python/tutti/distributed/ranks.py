"""Ranks as a program gives them."""

from typing import Any


def whole_rank(rank: Any) -> int:
    """A rank as a number; TypeError for anything else, 0.5, "0" and True too."""
    if isinstance(rank, bool) or not hasattr(rank, "__index__"):
        raise TypeError(f"a rank is a whole number, not {rank!r}")
    return int(rank.__index__())


def whole_ranks(ranks: Any, what: str) -> list[int]:
    """Ranks as numbers, of a list, an array or anything like it; TypeError as above."""
    if isinstance(ranks, (str, bytes)) or not hasattr(ranks, "__iter__"):
        raise TypeError(f"{what}: ranks are given as a list, not as {ranks!r}")
    listed = list(ranks)
    for rank in listed:
        if isinstance(rank, bool) or not hasattr(rank, "__index__"):
            raise TypeError(f"{what}: {rank!r} is no rank; ranks are whole numbers")
    return [rank.__index__() for rank in listed]


def listed_parts(parts: Any, what: str) -> list[Any]:
    """Lists of ranks, which the caller looks at, as a list; TypeError if it is none."""
    if isinstance(parts, (str, bytes)) or not hasattr(parts, "__iter__") or not hasattr(parts, "__len__"):
        raise TypeError(f"{what} is a list of lists of ranks, not {parts!r}")
    return list(parts)
