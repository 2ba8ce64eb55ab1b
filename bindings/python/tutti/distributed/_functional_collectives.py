"""Collectives that leave their input as it is and return the result, for torch tensors in CPU memory.

`group` is a group, its name, a list of global ranks (all of the world's, or of a group that was made), a DeviceMesh of one
dimension, or (mesh, dimension). Results are complete: `wait_tensor` returns its tensor. They have no gradient:
`tutti.torch.nn` has collectives with one, for groups of torch's own.
"""

from collections.abc import Sequence
from typing import Any

import torch

from tutti.distributed import coalesced, collectives
from tutti.distributed.device_mesh import DeviceMesh
from tutti.distributed.operators import RedOpType
from tutti.distributed.process_group import ProcessGroup, default_group, resolved
from tutti.distributed.world import world


class AsyncCollectiveTensor(torch.Tensor):  # type: ignore[misc]  # torch may be absent
    """torch's class of results that are still to come; no result here is one."""


def _resolved(group: Any) -> ProcessGroup:
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, str):
        return resolved(group)
    found: ProcessGroup
    if isinstance(group, DeviceMesh):
        found = group.get_group()
        return found
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        found = group[0].get_group(group[1])
        return found
    if isinstance(group, list):
        ranks = group
        if ranks and isinstance(ranks[0], list):
            ranks = next(row for row in ranks if default_group()._own in row)
        for known in world.groups.values():
            if isinstance(known, ProcessGroup) and known._ranks == sorted(ranks):
                return known
        raise ValueError(f"no group of the ranks {ranks} was made; make it with new_group, and pass it")
    raise ValueError(f"Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int), not "
                     f"{group!r}")


def _op(name: str) -> RedOpType:
    if name.upper() not in RedOpType.__members__:
        raise ValueError(f"{name!r} is no reduce operation")
    return RedOpType[name.upper()]


def wait_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor: results are complete."""
    return tensor


def broadcast(self: torch.Tensor, src: int, group: Any, tag: str = "") -> torch.Tensor:
    """The tensor of the rank `src` of the group."""
    result = self.detach().clone(memory_format=torch.contiguous_format)
    collectives.broadcast(result, group=_resolved(group), group_src=src)
    return result


def all_reduce(self: torch.Tensor, reduceOp: str, group: Any, tag: str = "") -> torch.Tensor:
    """The tensors of all ranks, combined."""
    result = self.detach().clone(memory_format=torch.contiguous_format)
    collectives.all_reduce(result, _op(reduceOp), _resolved(group))
    return result


def all_gather_single(self: torch.Tensor, gather_dim: int, group: Any, tag: str = "") -> torch.Tensor:
    """The tensors of all ranks, one after the other along a dimension."""
    pg = _resolved(group)
    result = self.new_empty((pg.size() * self.shape[0], *self.shape[1:]))
    collectives.all_gather_single(result, self.detach(), pg)
    return result if gather_dim == 0 else torch.cat(torch.chunk(result, pg.size(), dim=0), dim=gather_dim)


all_gather_tensor = all_gather_single


def reduce_scatter_single(self: torch.Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> torch.Tensor:
    """The tensors of all ranks, combined, of which each rank gets a part along a dimension."""
    pg = _resolved(group)
    if self.shape[scatter_dim] % pg.size() != 0:
        raise ValueError(f"input dimension {scatter_dim} ({self.shape[scatter_dim]}) must be a multiple of group_size "
                         f"{pg.size()}")
    whole = self.detach()
    if scatter_dim != 0:
        whole = torch.cat(torch.chunk(whole, pg.size(), dim=scatter_dim))
    result = whole.new_empty((whole.shape[0] // pg.size(), *whole.shape[1:]))
    collectives.reduce_scatter_single(result, whole, _op(reduceOp), pg)
    return result


reduce_scatter_tensor = reduce_scatter_single


def all_reduce_coalesced(self: Sequence[torch.Tensor], reduceOp: str, group: Any, tag: str = "") -> list[torch.Tensor]:
    """all_reduce of each tensor, in one operation."""
    results = [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in self]
    coalesced.all_reduce_coalesced(results, _op(reduceOp), _resolved(group))
    return results


def all_gather_single_coalesced(self: Sequence[torch.Tensor], group: Any, tag: str = "") -> list[torch.Tensor]:
    """all_gather_single of each tensor along its first dimension, in one operation."""
    pg = _resolved(group)
    results = [tensor.new_empty((pg.size() * tensor.shape[0], *tensor.shape[1:])) for tensor in self]
    coalesced.all_gather_into_tensor_coalesced(results, [tensor.detach() for tensor in self], pg)
    return results


all_gather_into_tensor_coalesced = all_gather_single_coalesced


def reduce_scatter_single_coalesced(inputs: Sequence[torch.Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any,
                                    tag: str = "") -> list[torch.Tensor]:
    """reduce_scatter_single of each tensor."""
    if len(scatter_dim) != len(inputs):
        raise ValueError(f"{len(scatter_dim)} dimensions for {len(inputs)} tensors")
    return [reduce_scatter_single(tensor, reduceOp, dim, group) for tensor, dim in zip(inputs, scatter_dim)]


reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def all_to_all_single(self: torch.Tensor, output_split_sizes: Sequence[int] | None,
                      input_split_sizes: Sequence[int] | None, group: Any, tag: str = "") -> torch.Tensor:
    """Parts of the first dimension from each rank; without sizes all are equal."""
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    result = self.new_empty((rows, *self.shape[1:]))
    collectives.all_to_all_single(result, self.detach(), output_split_sizes, input_split_sizes, _resolved(group))
    return result


def permute_tensor(self: torch.Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> torch.Tensor:
    """The tensor of rank r, for rank `src_dst[r]` of the group."""
    pg = _resolved(group)
    if sorted(src_dst) != list(range(pg.size())):
        raise ValueError(f"src_dst is {list(src_dst)}; it has each rank of the group once")
    sent, got = [0] * pg.size(), [0] * pg.size()
    sent[src_dst[pg.rank()]] = self.numel()
    got[list(src_dst).index(pg.rank())] = self.numel()
    flat = self.detach().reshape(-1)
    result = torch.empty_like(flat)
    collectives.all_to_all_single(result, flat, got, sent, pg)
    return result.reshape(self.shape)
