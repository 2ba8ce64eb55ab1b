"""Made by tools/made.py --write: what a call gives, by `async_op`.

A process that is not in the group gets None in any case, after a warning; the types leave that out.
"""

from collections.abc import Sequence
from typing import Any, Literal, overload

from tutti._times import Timeout
from tutti.distributed.futures import Future
from tutti.distributed.operators import Op, RedOpType
from tutti.distributed.process_group import AnyGroup
from tutti.distributed.work import Work

__all__ = [
    "broadcast", "all_reduce", "reduce", "scan", "all_gather", "all_gather_single", "all_gather_into_tensor",
    "_all_gather_base", "gather", "gather_single", "gather_into_tensor", "scatter", "scatter_single", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "_reduce_scatter_base", "all_to_all_single", "all_to_all",
    "barrier", "all_reduce_coalesced", "all_gather_coalesced", "all_gather_into_tensor_coalesced",
    "reduce_scatter_tensor_coalesced", "broadcast_multigpu", "all_reduce_multigpu", "reduce_multigpu",
    "all_gather_multigpu", "isend", "irecv",
]

@overload
def broadcast(tensor: Any, src: int | None = None, group: AnyGroup = None, async_op: Literal[False] = False,
              group_src: int | None = None, *, timeout: Timeout = None) -> None:
    """Copy the tensor of `src` into everybody's."""
@overload
def broadcast(tensor: Any, src: int | None = None, group: AnyGroup = None, *, async_op: Literal[True],
              group_src: int | None = None, timeout: Timeout = None) -> Work: ...
@overload
def broadcast(tensor: Any, src: int | None, group: AnyGroup, async_op: Literal[True], group_src: int | None = None, *,
              timeout: Timeout = None) -> Work: ...
@overload
def broadcast(tensor: Any, src: int | None = None, group: AnyGroup = None, async_op: bool = False,
              group_src: int | None = None, *, timeout: Timeout = None) -> Work | None: ...

@overload
def all_reduce(tensor: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: Literal[False] = False, *,
               timeout: Timeout = None) -> None:
    """Combine the tensors of all ranks, element by element, into each of them, in place."""
@overload
def all_reduce(tensor: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, *, async_op: Literal[True],
               timeout: Timeout = None) -> Work: ...
@overload
def all_reduce(tensor: Any, op: Op, group: AnyGroup, async_op: Literal[True], *, timeout: Timeout = None) -> Work: ...
@overload
def all_reduce(tensor: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False, *,
               timeout: Timeout = None) -> Work | None: ...

@overload
def reduce(tensor: Any, dst: int | None = None, op: Op = RedOpType.SUM, group: AnyGroup = None,
           async_op: Literal[False] = False, group_dst: int | None = None, *, timeout: Timeout = None) -> None:
    """Combine the tensors of all ranks into that of `dst`; the others' stay as they are."""
@overload
def reduce(tensor: Any, dst: int | None = None, op: Op = RedOpType.SUM, group: AnyGroup = None, *,
           async_op: Literal[True], group_dst: int | None = None, timeout: Timeout = None) -> Work: ...
@overload
def reduce(tensor: Any, dst: int | None, op: Op, group: AnyGroup, async_op: Literal[True], group_dst: int | None = None,
           *, timeout: Timeout = None) -> Work: ...
@overload
def reduce(tensor: Any, dst: int | None = None, op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False,
           group_dst: int | None = None, *, timeout: Timeout = None) -> Work | None: ...

@overload
def scan(tensor: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: Literal[False] = False,
         exclusive: bool = False, *, timeout: Timeout = None) -> None:
    """Combine on rank r the tensors of the ranks 0 to r, in place; with `exclusive`, of the ranks 0 to r - 1. Rank 0's
    tensor then stays as it is. AVG divides by the number of ranks that are combined. torch.distributed has no such
    operation; MPI calls it MPI_Scan and MPI_Exscan."""
@overload
def scan(tensor: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, *, async_op: Literal[True],
         exclusive: bool = False, timeout: Timeout = None) -> Work: ...
@overload
def scan(tensor: Any, op: Op, group: AnyGroup, async_op: Literal[True], exclusive: bool = False, *,
         timeout: Timeout = None) -> Work: ...
@overload
def scan(tensor: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False, exclusive: bool = False,
         *, timeout: Timeout = None) -> Work | None: ...

@overload
def all_gather(tensor_list: Sequence[Any], tensor: Any, group: AnyGroup = None, async_op: Literal[False] = False, *,
               timeout: Timeout = None) -> None:
    """Put the tensor of rank r into `tensor_list[r]`, on every rank. Sizes may differ between ranks."""
@overload
def all_gather(tensor_list: Sequence[Any], tensor: Any, group: AnyGroup = None, *, async_op: Literal[True],
               timeout: Timeout = None) -> Work: ...
@overload
def all_gather(tensor_list: Sequence[Any], tensor: Any, group: AnyGroup, async_op: Literal[True], *,
               timeout: Timeout = None) -> Work: ...
@overload
def all_gather(tensor_list: Sequence[Any], tensor: Any, group: AnyGroup = None, async_op: bool = False, *,
               timeout: Timeout = None) -> Work | None: ...

@overload
def all_gather_single(output_tensor: Any, input_tensor: Any, group: AnyGroup = None, async_op: Literal[False] = False,
                      *, timeout: Timeout = None) -> None:
    """Put the inputs of all ranks, one after the other, into everybody's output: n times the input's elements, stacked
    or one after the other."""
@overload
def all_gather_single(output_tensor: Any, input_tensor: Any, group: AnyGroup = None, *, async_op: Literal[True],
                      timeout: Timeout = None) -> Work: ...
@overload
def all_gather_single(output_tensor: Any, input_tensor: Any, group: AnyGroup, async_op: Literal[True], *,
                      timeout: Timeout = None) -> Work: ...
@overload
def all_gather_single(output_tensor: Any, input_tensor: Any, group: AnyGroup = None, async_op: bool = False, *,
                      timeout: Timeout = None) -> Work | None: ...

@overload
def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: AnyGroup = None,
                           async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """The older name of all_gather_single."""
@overload
def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: AnyGroup = None, *, async_op: Literal[True],
                           timeout: Timeout = None) -> Work: ...
@overload
def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: AnyGroup, async_op: Literal[True], *,
                           timeout: Timeout = None) -> Work: ...
@overload
def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: AnyGroup = None, async_op: bool = False, *,
                           timeout: Timeout = None) -> Work | None: ...

@overload
def gather(tensor: Any, gather_list: Sequence[Any] | None = None, dst: int | None = None, group: AnyGroup = None,
           async_op: Literal[False] = False, group_dst: int | None = None, *, timeout: Timeout = None) -> None:
    """Put the tensor of rank r into `gather_list[r]` on `dst` (0 unless said). Only there is a list given."""
@overload
def gather(tensor: Any, gather_list: Sequence[Any] | None = None, dst: int | None = None, group: AnyGroup = None, *,
           async_op: Literal[True], group_dst: int | None = None, timeout: Timeout = None) -> Work: ...
@overload
def gather(tensor: Any, gather_list: Sequence[Any] | None, dst: int | None, group: AnyGroup, async_op: Literal[True],
           group_dst: int | None = None, *, timeout: Timeout = None) -> Work: ...
@overload
def gather(tensor: Any, gather_list: Sequence[Any] | None = None, dst: int | None = None, group: AnyGroup = None,
           async_op: bool = False, group_dst: int | None = None, *, timeout: Timeout = None) -> Work | None: ...

@overload
def gather_single(output_tensor: Any, input_tensor: Any, dst: int | None = None, group: AnyGroup = None,
                  async_op: Literal[False] = False, group_dst: int | None = None, *, timeout: Timeout = None) -> None:
    """As gather, into one tensor on `dst`; the others give None."""
@overload
def gather_single(output_tensor: Any, input_tensor: Any, dst: int | None = None, group: AnyGroup = None, *,
                  async_op: Literal[True], group_dst: int | None = None, timeout: Timeout = None) -> Work: ...
@overload
def gather_single(output_tensor: Any, input_tensor: Any, dst: int | None, group: AnyGroup, async_op: Literal[True],
                  group_dst: int | None = None, *, timeout: Timeout = None) -> Work: ...
@overload
def gather_single(output_tensor: Any, input_tensor: Any, dst: int | None = None, group: AnyGroup = None,
                  async_op: bool = False, group_dst: int | None = None, *, timeout: Timeout = None) -> Work | None: ...

@overload
def scatter(tensor: Any, scatter_list: Sequence[Any] | None = None, src: int | None = None, group: AnyGroup = None,
            async_op: Literal[False] = False, group_src: int | None = None, *, timeout: Timeout = None) -> None:
    """Put `scatter_list[r]` of `src` (0 unless said) into the tensor of rank r. Only there is a list given."""
@overload
def scatter(tensor: Any, scatter_list: Sequence[Any] | None = None, src: int | None = None, group: AnyGroup = None, *,
            async_op: Literal[True], group_src: int | None = None, timeout: Timeout = None) -> Work: ...
@overload
def scatter(tensor: Any, scatter_list: Sequence[Any] | None, src: int | None, group: AnyGroup, async_op: Literal[True],
            group_src: int | None = None, *, timeout: Timeout = None) -> Work: ...
@overload
def scatter(tensor: Any, scatter_list: Sequence[Any] | None = None, src: int | None = None, group: AnyGroup = None,
            async_op: bool = False, group_src: int | None = None, *, timeout: Timeout = None) -> Work | None: ...

@overload
def scatter_single(output_tensor: Any, input_tensor: Any, src: int | None = None, group: AnyGroup = None,
                   async_op: Literal[False] = False, group_src: int | None = None, *, timeout: Timeout = None) -> None:
    """As scatter, from one tensor on `src`; the others give None."""
@overload
def scatter_single(output_tensor: Any, input_tensor: Any, src: int | None = None, group: AnyGroup = None, *,
                   async_op: Literal[True], group_src: int | None = None, timeout: Timeout = None) -> Work: ...
@overload
def scatter_single(output_tensor: Any, input_tensor: Any, src: int | None, group: AnyGroup, async_op: Literal[True],
                   group_src: int | None = None, *, timeout: Timeout = None) -> Work: ...
@overload
def scatter_single(output_tensor: Any, input_tensor: Any, src: int | None = None, group: AnyGroup = None,
                   async_op: bool = False, group_src: int | None = None, *, timeout: Timeout = None) -> Work | None: ...

@overload
def reduce_scatter(output: Any, input_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None,
                   async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """Combine the lists of all ranks, tensor by tensor; rank r gets the r-th result. Sizes may differ between the
    tensors of a list."""
@overload
def reduce_scatter(output: Any, input_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None, *,
                   async_op: Literal[True], timeout: Timeout = None) -> Work: ...
@overload
def reduce_scatter(output: Any, input_list: Sequence[Any], op: Op, group: AnyGroup, async_op: Literal[True], *,
                   timeout: Timeout = None) -> Work: ...
@overload
def reduce_scatter(output: Any, input_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None,
                   async_op: bool = False, *, timeout: Timeout = None) -> Work | None: ...

@overload
def reduce_scatter_single(output: Any, input: Any, op: Op = RedOpType.SUM, group: AnyGroup = None,
                          async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """Combine the inputs of all ranks; rank r gets the r-th of n equal parts of the result."""
@overload
def reduce_scatter_single(output: Any, input: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, *,
                          async_op: Literal[True], timeout: Timeout = None) -> Work: ...
@overload
def reduce_scatter_single(output: Any, input: Any, op: Op, group: AnyGroup, async_op: Literal[True], *,
                          timeout: Timeout = None) -> Work: ...
@overload
def reduce_scatter_single(output: Any, input: Any, op: Op = RedOpType.SUM, group: AnyGroup = None,
                          async_op: bool = False, *, timeout: Timeout = None) -> Work | None: ...

@overload
def reduce_scatter_tensor(output: Any, input: Any, op: Op = RedOpType.SUM, group: AnyGroup = None,
                          async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """The older name of reduce_scatter_single."""
@overload
def reduce_scatter_tensor(output: Any, input: Any, op: Op = RedOpType.SUM, group: AnyGroup = None, *,
                          async_op: Literal[True], timeout: Timeout = None) -> Work: ...
@overload
def reduce_scatter_tensor(output: Any, input: Any, op: Op, group: AnyGroup, async_op: Literal[True], *,
                          timeout: Timeout = None) -> Work: ...
@overload
def reduce_scatter_tensor(output: Any, input: Any, op: Op = RedOpType.SUM, group: AnyGroup = None,
                          async_op: bool = False, *, timeout: Timeout = None) -> Work | None: ...

@overload
def all_to_all_single(output: Any, input: Any, output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: AnyGroup = None,
                      async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """Split the input along its outermost extent, send the r-th part to rank r, and put what rank r sent into the r-th
    part of the output. Without splits the parts are equal."""
@overload
def all_to_all_single(output: Any, input: Any, output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: AnyGroup = None, *,
                      async_op: Literal[True], timeout: Timeout = None) -> Work: ...
@overload
def all_to_all_single(output: Any, input: Any, output_split_sizes: Sequence[int] | None,
                      input_split_sizes: Sequence[int] | None, group: AnyGroup, async_op: Literal[True], *,
                      timeout: Timeout = None) -> Work: ...
@overload
def all_to_all_single(output: Any, input: Any, output_split_sizes: Sequence[int] | None = None,
                      input_split_sizes: Sequence[int] | None = None, group: AnyGroup = None, async_op: bool = False, *,
                      timeout: Timeout = None) -> Work | None: ...

@overload
def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: AnyGroup = None,
               async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """Send `input_tensor_list[r]` to rank r, and put what rank r sent into `output_tensor_list[r]`. Sizes may differ
    from pair to pair."""
@overload
def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: AnyGroup = None, *,
               async_op: Literal[True], timeout: Timeout = None) -> Work: ...
@overload
def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: AnyGroup,
               async_op: Literal[True], *, timeout: Timeout = None) -> Work: ...
@overload
def all_to_all(output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: AnyGroup = None,
               async_op: bool = False, *, timeout: Timeout = None) -> Work | None: ...

@overload
def barrier(group: AnyGroup = None, async_op: Literal[False] = False, device_ids: list[int] | None = None,
            timeout: Timeout = None) -> None:
    """Returns on no rank before every rank has called it."""
@overload
def barrier(group: AnyGroup = None, *, async_op: Literal[True], device_ids: list[int] | None = None,
            timeout: Timeout = None) -> Work: ...
@overload
def barrier(group: AnyGroup, async_op: Literal[True], device_ids: list[int] | None = None,
            timeout: Timeout = None) -> Work: ...
@overload
def barrier(group: AnyGroup = None, async_op: bool = False, device_ids: list[int] | None = None,
            timeout: Timeout = None) -> Work | None: ...

@overload
def all_reduce_coalesced(tensors: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None,
                         async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """all_reduce of each tensor of a list, of one dtype. With async_op a Future of the list."""
@overload
def all_reduce_coalesced(tensors: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None, *,
                         async_op: Literal[True], timeout: Timeout = None) -> Future: ...
@overload
def all_reduce_coalesced(tensors: Sequence[Any], op: Op, group: AnyGroup, async_op: Literal[True], *,
                         timeout: Timeout = None) -> Future: ...
@overload
def all_reduce_coalesced(tensors: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False,
                         *, timeout: Timeout = None) -> Future | None: ...

@overload
def all_gather_coalesced(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                         group: AnyGroup = None, async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """all_gather of each tensor of a list: input j of rank r lands in `output_tensor_lists[r][j]`."""
@overload
def all_gather_coalesced(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                         group: AnyGroup = None, *, async_op: Literal[True], timeout: Timeout = None) -> Future: ...
@overload
def all_gather_coalesced(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                         group: AnyGroup, async_op: Literal[True], *, timeout: Timeout = None) -> Future: ...
@overload
def all_gather_coalesced(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                         group: AnyGroup = None, async_op: bool = False, *, timeout: Timeout = None) -> Future | None: ...

@overload
def all_gather_into_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any],
                                     group: AnyGroup = None, async_op: Literal[False] = False, *,
                                     timeout: Timeout = None) -> None:
    """all_gather_into_tensor of each pair."""
@overload
def all_gather_into_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any],
                                     group: AnyGroup = None, *, async_op: Literal[True],
                                     timeout: Timeout = None) -> Work: ...
@overload
def all_gather_into_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any], group: AnyGroup,
                                     async_op: Literal[True], *, timeout: Timeout = None) -> Work: ...
@overload
def all_gather_into_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any],
                                     group: AnyGroup = None, async_op: bool = False, *,
                                     timeout: Timeout = None) -> Work | None: ...

@overload
def reduce_scatter_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any], op: Op = RedOpType.SUM,
                                    group: AnyGroup = None, async_op: Literal[False] = False, *,
                                    timeout: Timeout = None) -> None:
    """reduce_scatter_tensor of each pair."""
@overload
def reduce_scatter_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any], op: Op = RedOpType.SUM,
                                    group: AnyGroup = None, *, async_op: Literal[True],
                                    timeout: Timeout = None) -> Work: ...
@overload
def reduce_scatter_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any], op: Op,
                                    group: AnyGroup, async_op: Literal[True], *, timeout: Timeout = None) -> Work: ...
@overload
def reduce_scatter_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any], op: Op = RedOpType.SUM,
                                    group: AnyGroup = None, async_op: bool = False, *,
                                    timeout: Timeout = None) -> Work | None: ...

@overload
def broadcast_multigpu(tensor_list: Sequence[Any], src: int, group: AnyGroup = None, async_op: Literal[False] = False,
                       src_tensor: int = 0, *, timeout: Timeout = None) -> None:
    """Copy `tensor_list[src_tensor]` of `src` into every tensor of every rank."""
@overload
def broadcast_multigpu(tensor_list: Sequence[Any], src: int, group: AnyGroup = None, *, async_op: Literal[True],
                       src_tensor: int = 0, timeout: Timeout = None) -> Work: ...
@overload
def broadcast_multigpu(tensor_list: Sequence[Any], src: int, group: AnyGroup, async_op: Literal[True],
                       src_tensor: int = 0, *, timeout: Timeout = None) -> Work: ...
@overload
def broadcast_multigpu(tensor_list: Sequence[Any], src: int, group: AnyGroup = None, async_op: bool = False,
                       src_tensor: int = 0, *, timeout: Timeout = None) -> Work | None: ...

@overload
def all_reduce_multigpu(tensor_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None,
                        async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """Combine all tensors of all ranks into each of them."""
@overload
def all_reduce_multigpu(tensor_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None, *,
                        async_op: Literal[True], timeout: Timeout = None) -> Work: ...
@overload
def all_reduce_multigpu(tensor_list: Sequence[Any], op: Op, group: AnyGroup, async_op: Literal[True], *,
                        timeout: Timeout = None) -> Work: ...
@overload
def all_reduce_multigpu(tensor_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None,
                        async_op: bool = False, *, timeout: Timeout = None) -> Work | None: ...

@overload
def reduce_multigpu(tensor_list: Sequence[Any], dst: int, op: Op = RedOpType.SUM, group: AnyGroup = None,
                    async_op: Literal[False] = False, dst_tensor: int = 0, *, timeout: Timeout = None) -> None:
    """Combine all tensors of all ranks into `tensor_list[dst_tensor]` of `dst`."""
@overload
def reduce_multigpu(tensor_list: Sequence[Any], dst: int, op: Op = RedOpType.SUM, group: AnyGroup = None, *,
                    async_op: Literal[True], dst_tensor: int = 0, timeout: Timeout = None) -> Work: ...
@overload
def reduce_multigpu(tensor_list: Sequence[Any], dst: int, op: Op, group: AnyGroup, async_op: Literal[True],
                    dst_tensor: int = 0, *, timeout: Timeout = None) -> Work: ...
@overload
def reduce_multigpu(tensor_list: Sequence[Any], dst: int, op: Op = RedOpType.SUM, group: AnyGroup = None,
                    async_op: bool = False, dst_tensor: int = 0, *, timeout: Timeout = None) -> Work | None: ...

@overload
def all_gather_multigpu(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                        group: AnyGroup = None, async_op: Literal[False] = False, *, timeout: Timeout = None) -> None:
    """Gather all tensors of all ranks: input j of rank k lands in `output_tensor_lists[i][k * n + j]` for every i,
    where n is the number of inputs."""
@overload
def all_gather_multigpu(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                        group: AnyGroup = None, *, async_op: Literal[True], timeout: Timeout = None) -> Work: ...
@overload
def all_gather_multigpu(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any], group: AnyGroup,
                        async_op: Literal[True], *, timeout: Timeout = None) -> Work: ...
@overload
def all_gather_multigpu(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                        group: AnyGroup = None, async_op: bool = False, *, timeout: Timeout = None) -> Work | None: ...

def isend(tensor: Any, dst: int | None = None, group: AnyGroup = None, tag: int = 0, group_dst: int | None = None, *,
          timeout: Timeout = None) -> Work:
    """As send, without waiting; to oneself too."""

def irecv(tensor: Any, src: int | None = None, group: AnyGroup = None, tag: int | None = 0,
          group_src: int | None = None, *, timeout: Timeout = None) -> Work:
    """As recv, without waiting."""

_all_gather_base = all_gather_into_tensor
gather_into_tensor = gather_single
_reduce_scatter_base = reduce_scatter_tensor
