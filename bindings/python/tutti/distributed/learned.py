"""Operations on blocks whose sizes the ranks learn. torch.distributed has no such operations."""

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tutti._times import Timeout
from tutti.distributed.probes import room_for
from tutti.distributed.process_group import AnyGroup, ProcessGroup, member_group, rank_or_first
from tutti.distributed.tensors import check_single, count_of, dtype_of

__all__ = ["all_gather_v", "all_to_all_v", "gather_v"]


def _like(tensor: Any, numel: int) -> Any:
    """A new tensor with one dimension, of the kind, dtype and device of another one."""
    if hasattr(tensor, "new_empty"):  # torch's
        return tensor.new_empty(numel)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        return numpy.empty(numel, tensor.dtype)
    return room_for(dtype_of(tensor), numel)


def _move(pg: ProcessGroup, kind: str, tensor: Any, sent: Sequence[int], root: int, timeout: Timeout,
          start: Callable[[Any, list[int], float], Any]) -> tuple[Any, list[int]]:
    """Learns the counts, then calls `start(output, counts, timeout)`. Ranks that get nothing have no counts."""
    counts, left = pg._low._learn_counts(kind, tensor, list(sent), root, timeout)
    try:
        output = _like(tensor, sum(counts)) if counts else None
        start(output, counts, left)
    except Exception as problem:
        pg._low.abort(f"{kind}_v on rank {pg._own}: {problem}")  # the others have begun it
        raise
    return output, counts


def gather_v(tensor: Any, dst: int | None = None, group: AnyGroup = None, group_dst: int | None = None, *,
             timeout: Timeout = None) -> tuple[Any, list[int]]:
    """Gather tensors of any sizes on `dst` (0 unless said), which need not know them: (a new tensor with the elements of
    all ranks in a row, the number of elements of each rank). On other ranks, and where this rank is no member,
    (None, [])."""
    check_single(tensor, "tensor")
    pg = member_group(group, "gather_v")
    if pg is None:
        return None, []
    root = rank_or_first(pg, dst, group_dst)
    return _move(pg, "gather", tensor, (), root, timeout,
                 lambda output, counts, left: pg._low.gather(output, tensor, root, timeout=left,
                                                             counts=counts or [count_of(tensor)]))


def all_gather_v(tensor: Any, group: AnyGroup = None, *, timeout: Timeout = None) -> tuple[Any, list[int]]:
    """As gather_v, on every rank."""
    check_single(tensor, "tensor")
    pg = member_group(group, "all_gather_v")
    if pg is None:
        return None, []
    return _move(pg, "all_gather", tensor, (), 0, timeout,
                 lambda output, counts, left: pg._low.all_gather(output, tensor, counts=counts, timeout=left))


def all_to_all_v(tensor: Any, send_counts: Sequence[int], group: AnyGroup = None, *,
                 timeout: Timeout = None) -> tuple[Any, list[int]]:
    """Send the first `send_counts[0]` elements to rank 0, the next `send_counts[1]` to rank 1, and so on: (a new tensor
    with what each rank has sent to this one, the number of elements from each rank)."""
    check_single(tensor, "tensor")
    pg = member_group(group, "all_to_all_v")
    if pg is None:
        return None, []
    sent = [operator.index(count) for count in send_counts]
    return _move(pg, "all_to_all", tensor, sent, 0, timeout,
                 lambda output, counts, left: pg._low.all_to_all(output, tensor, output_splits=counts, input_splits=sent,
                                                                 timeout=left))
