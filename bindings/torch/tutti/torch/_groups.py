"""Groups by their names: the graph of torch.compile holds the name of a group, never the group."""

from typing import Any, Union

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

Group = Union[str, dist.ProcessGroup, None]  # a group, its name, or None: the default group


def name_of(group: Group) -> str:
    """The name of the group; ValueError on a rank outside it."""
    if isinstance(group, str):
        return group
    if group is None:
        if not dist.is_initialized():
            raise ValueError("tutti.torch: there is no default group; call torch.distributed.init_process_group")
        group = dist.group.WORLD
    pg: Any = group
    if not isinstance(pg, dist.ProcessGroup):
        if isinstance(group, int):
            raise ValueError("tutti.torch: this rank is not in the group")
        raise TypeError(f"tutti.torch: group is a ProcessGroup, its name or None, not a {type(group).__name__}")
    return str(pg.group_name)


def group_of(name: str) -> dist.ProcessGroup:
    """The group of that name."""
    try:
        return distributed_c10d._resolve_process_group(name)
    except (RuntimeError, KeyError) as problem:
        raise ValueError(f"tutti.torch: this rank is in no group with the name '{name}'") from problem


def size_of(name: str) -> int:
    """How many ranks it has."""
    if torch.compiler.is_compiling():
        return int(distributed_c10d._get_group_size_by_name(name))  # a constant to torch.compile
    return int(group_of(name).size())


def root_of(call: str, rank: int, group: dist.ProcessGroup) -> bool:
    """True if this rank is the root; ValueError if the root is not in the group."""
    ranks = dist.get_process_group_ranks(group)
    if rank not in ranks:
        raise ValueError(f"{call}: rank {rank} is not in the group, which has the ranks {ranks}")
    return bool(ranks[group.rank()] == rank)
