"""Several operations that count as one."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from tutti._times import Timeout
from tutti.distributed.collectives import check_complex
from tutti.distributed.constants import seconds_of
from tutti.distributed.process_group import AnyGroup, ProcessGroup, member_group
from tutti.distributed.operators import Op, RedOpType, low_of
from tutti.distributed.shapes import check_blocks, check_each
from tutti.distributed.tensors import check_list, check_same_dtype, is_tensor
from tutti.distributed.futures import Future
from tutti.distributed.work import Work, wait_all
from tutti.errors import InvalidArgument

__all__ = [
    "all_gather_coalesced", "all_gather_into_tensor_coalesced", "all_reduce_coalesced",
    "reduce_scatter_tensor_coalesced"]


def _future(low: Any) -> Future | None:
    return None if low is None else Work(low).get_future()


def all_reduce_coalesced(tensors: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False,
                         *, timeout: Timeout = None) -> Future | None:
    """all_reduce of each tensor of a list, of one dtype. With async_op a Future of the list."""
    if is_tensor(tensors):
        tensors = [tensors]
    check_list(tensors, "tensor")
    check_same_dtype(tensors)
    low_op, factor = low_of(op)
    for tensor in tensors:
        check_complex(op, tensor, "all_reduce")
    pg = member_group(group, "all_reduce_coalesced")
    if pg is None:
        return None
    return _future(pg._low.all_reduce_coalesced(tensors, low_op, factor=factor, timeout=timeout, async_op=async_op))


def all_gather_coalesced(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                         group: AnyGroup = None, async_op: bool = False, *, timeout: Timeout = None) -> Future | None:
    """all_gather of each tensor of a list: input j of rank r lands in `output_tensor_lists[r][j]`."""
    check_list(input_tensor_list, "input_tensor_list")
    check_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, (list, tuple)):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for tensors in output_tensor_lists:
        check_list(tensors, "output_tensor_lists")
        check_same_dtype(tensors)
    pg = member_group(group, "all_gather_coalesced")
    if pg is None:
        return None
    size = len(pg._ranks)
    if len(output_tensor_lists) != size or any(len(row) != len(input_tensor_list) for row in output_tensor_lists):
        raise InvalidArgument(f"all_gather_coalesced: output_tensor_lists must hold {size} lists (one for each rank) of "
                              f"{len(input_tensor_list)} tensors (one for each input)")
    for row in output_tensor_lists:
        for tensor, like in zip(row, input_tensor_list):
            check_blocks("all_gather_coalesced", (tensor,), like)
    return _future(pg._low.all_gather_coalesced([tensor for row in output_tensor_lists for tensor in row],
                                                input_tensor_list, timeout=timeout, async_op=async_op))


def all_gather_into_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any],
                                     group: AnyGroup = None, async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """all_gather_into_tensor of each pair."""
    check_list(output_tensors, "output_tensors")
    check_list(input_tensors, "input_tensors")
    _check_pairs(output_tensors, input_tensors, "all_gather_into_tensor_coalesced")
    pg = member_group(group, "all_gather_into_tensor_coalesced")
    if pg is None:
        return None
    check_each("all_gather_into_tensor_coalesced", output_tensors, input_tensors, len(pg._ranks))
    low = pg._low.all_gather_coalesced(output_tensors, input_tensors, timeout=timeout, async_op=async_op)
    return None if low is None else Work(low)


def reduce_scatter_tensor_coalesced(output_tensors: Sequence[Any], input_tensors: Sequence[Any],
                                    op: Op = RedOpType.SUM, group: AnyGroup = None, async_op: bool = False, *,
                                    timeout: Timeout = None) -> Work | None:
    """reduce_scatter_tensor of each pair."""
    check_list(output_tensors, "output_tensors")
    check_list(input_tensors, "input_tensors")
    _check_pairs(output_tensors, input_tensors, "reduce_scatter_tensor_coalesced")
    low_op, factor = low_of(op)
    for tensor in input_tensors:
        check_complex(op, tensor, "reduce_scatter")
    pg = member_group(group, "reduce_scatter_tensor_coalesced")
    if pg is None:
        return None
    check_each("reduce_scatter_tensor_coalesced", input_tensors, output_tensors, len(pg._ranks))
    low = pg._low.reduce_scatter_coalesced(output_tensors, input_tensors, low_op, factor=factor, timeout=timeout,
                                           async_op=async_op)
    return None if low is None else Work(low)


def _check_pairs(outputs: Sequence[Any], inputs: Sequence[Any], operation: str) -> None:
    if len(outputs) != len(inputs):
        raise InvalidArgument(f"{operation}: {len(outputs)} outputs for {len(inputs)} inputs")
    check_same_dtype(outputs, inputs)


class _Started:
    """Stands in for a group: every operation starts, and is waited for at the end."""

    def __init__(self, low: Any, started: list[Work]) -> None:
        self._low = low
        self._started = started

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._low, name)
        if name in ("send", "recv"):
            raise RuntimeError(f"{name} cannot be coalesced, it waits; use i{name}")
        later = name in ("isend", "irecv", "batch_isend_irecv")
        if not later and not _gives_work(method):
            return method

        def start(*arguments: Any, **options: Any) -> Any:
            wanted = later or options.pop("async_op", False)
            low = method(*arguments, **options) if later else method(*arguments, **options, async_op=True)
            self._started.extend(Work(each) for each in (low if isinstance(low, list) else [low]))
            return low if wanted else None

        return start


def _gives_work(method: Any) -> bool:
    """Whether a method of a group has `async_op`, by its signature, which begins the text that nanobind makes."""
    return "async_op" in (method.__doc__ or "").partition("\n")[0]


class _CoalescingManager:
    """The Work of the operations that a coalesced block has started."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def wait(self, timeout: Timeout = None) -> None:
        """Until all of it is done."""
        wait_all(self.works, None if timeout is None else seconds_of(timeout))


@contextlib.contextmanager
def _coalescing_manager(group: AnyGroup = None, device: Any = None, async_ops: bool = False
                        ) -> Iterator[_CoalescingManager]:
    """Operations of this block (one thread's, of one group) all start and are waited for at its end; with
    `async_ops` when the manager's wait() is called."""
    manager = _CoalescingManager()
    pg: ProcessGroup | None = member_group(group, "_coalescing_manager")
    if pg is None:
        yield manager
        return
    low = pg._low
    if isinstance(low, _Started):
        raise RuntimeError("a coalesced block stands in another one of the same group")
    pg._low = _Started(low, manager.works)  # type: ignore[assignment]
    try:
        yield manager
    finally:
        pg._low = low
    if not async_ops:
        manager.wait()
