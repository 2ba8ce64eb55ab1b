"""The functions of the first releases that take a list of tensors per process.

Every process gives as many tensors as the others; that is compared first, so these calls wait for all ranks
even with async_op. An error that one rank can see alone is raised before that.
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tutti._times import Timeout
from tutti.distributed.collectives import check_complex
from tutti.distributed.process_group import AnyGroup, ProcessGroup, member_group, rank_in_group
from tutti.distributed.operators import Op, RedOpType, low_of, plain
from tutti.distributed.tensors import check_list, check_same_dtype, count_of
from tutti.distributed.work import FollowedWork, Work


def _same_lengths(pg: ProcessGroup, length: int, operation: str, timeout: Any) -> None:
    """ValueError on every rank if their lists have different lengths."""
    every = bytearray(8 * len(pg._ranks))
    pg._low.all_gather(every, length.to_bytes(8, "little"), timeout=timeout)
    lengths = [int.from_bytes(every[8 * rank:8 * rank + 8], "little") for rank in range(len(pg._ranks))]
    if any(other != length for other in lengths):
        raise ValueError(f"{operation}: all ranks must give lists of one length, but those of ranks 0 to "
                         f"{len(lengths) - 1} have {lengths} tensors")


def _checked(tensor_list: Sequence[Any], group: Any, operation: str) -> ProcessGroup | None:
    check_list(tensor_list, "tensor_list")
    if not tensor_list:
        raise ValueError(f"{operation}: the list of tensors is empty")
    check_same_dtype(tensor_list)
    _check_one_library(tensor_list, operation)
    counts = [count_of(tensor) for tensor in tensor_list]
    if any(count != counts[0] for count in counts):
        raise ValueError(f"{operation}: the tensors of a list must have one size, not {counts} elements")
    return member_group(group, operation)


def _check_writable(tensors: Sequence[Any], operation: str) -> None:
    """Raises TypeError for a tensor that cannot take the result."""
    for tensor in tensors:
        flags: Any = getattr(tensor, "flags", None)
        if hasattr(flags, "writeable"):
            fixed = not flags.writeable
        else:
            fixed = not hasattr(tensor, "__dlpack__") and memoryview(tensor).readonly
        if fixed:
            raise TypeError(f"{operation}: one of the tensors, a {type(tensor).__name__}, is read-only, and the result "
                            f"would be written into it; pass a copy")


def _followed(works: Sequence[Work], then: Callable[[], None], tensors: list[Any]) -> FollowedWork:
    return FollowedWork(works, _on_streams_of_now(tensors, then), tensors)


def _ended(work: Work, async_op: bool) -> Work | None:
    if async_op:
        return work
    work.wait()
    return None


def _is_torch(tensor: Any) -> bool:
    return hasattr(tensor, "untyped_storage")


def _cupy_of(tensor: Any) -> Any:
    """CuPy, if the tensor is one of its arrays; else None."""
    cupy: Any = sys.modules.get("cupy")
    return cupy if cupy is not None and isinstance(tensor, cupy.ndarray) else None


def _array(tensor: Any) -> Any:
    """The tensor as an array of NumPy, in the same memory, or of CuPy."""
    import numpy
    if isinstance(tensor, numpy.ndarray) or _cupy_of(tensor) is not None:
        return tensor
    return numpy.from_dlpack(tensor) if hasattr(tensor, "__dlpack__") else numpy.asarray(tensor)


def _beside(array: Any) -> Any:
    """Makes the GPU of an array of CuPy the current one, as its calls need; `with`."""
    return contextlib.nullcontext() if _cupy_of(array) is None else array.device


def _near(target: Any, tensor: Any) -> Any:
    """The tensor on the device of `target`: itself, if it is there."""
    if _is_torch(target):
        return tensor.detach().to(target.device)
    cupy = _cupy_of(target)
    if cupy is None:
        return tensor
    with target.device:
        return cupy.asarray(tensor)


def copy_into(target: Any, source: Any) -> None:
    """The elements of one tensor into another of the same size; both may be on different GPUs."""
    if _is_torch(target):
        target.detach().copy_(source.detach().reshape(target.shape))
    else:
        array = _array(target)
        with _beside(array):
            array[...] = _near(array, _array(source)).reshape(array.shape)


def _check_one_library(tensors: Iterable[Any], operation: str) -> None:
    """Raises TypeError if tensors of torch, arrays of CuPy and others are mixed: none copies into all others."""
    names = {"torch" if _is_torch(one) else "CuPy" if _cupy_of(one) is not None else "NumPy or buffers"
             for one in tensors}
    if len(names) > 1:
        raise TypeError(f"{operation}: the tensors of all lists must be of one library, but they are of "
                        f"{' and of '.join(sorted(names))}")


def _on_streams_of_now(tensors: Sequence[Any], action: Callable[[], None]) -> Callable[[], None]:
    """The action on the streams of GPUs that are current now, whichever thread runs it later: what the caller gives
    those streams afterwards comes behind it."""
    if _is_torch(tensors[0]):
        devices = {tensor.device for tensor in tensors if tensor.is_cuda}
        if not devices:
            return action
        import torch
        streams = [torch.cuda.stream(torch.cuda.current_stream(device)) for device in devices]
    elif (cupy := _cupy_of(tensors[0])) is not None:
        streams = [cupy.cuda.get_current_stream()]
    else:
        return action

    def run() -> None:
        with contextlib.ExitStack() as stack:
            for stream in streams:
                stack.enter_context(stream)
            action()

    return run


def _sum_here(tensors: Sequence[Any], op: RedOpType) -> Any:
    """The combination of all tensors of this process, in new memory beside the first."""
    name = {RedOpType.SUM: "add", RedOpType.AVG: "add", RedOpType.PRODUCT: "multiply", RedOpType.MIN: "minimum",
            RedOpType.MAX: "maximum", RedOpType.BAND: "bitwise_and", RedOpType.BOR: "bitwise_or",
            RedOpType.BXOR: "bitwise_xor"}[op]
    if _is_torch(tensors[0]):
        import torch as library
        whole: Any = tensors[0].detach().clone()
    else:
        first = _array(tensors[0])
        library = _cupy_of(first)
        if library is None:
            import numpy as library
        with _beside(first):
            whole = library.array(first, copy=True)
    with _beside(whole):
        for tensor in tensors[1:]:
            part = _near(whole, tensor if _is_torch(tensor) else _array(tensor)).reshape(whole.shape)
            whole[...] = getattr(library, name)(whole, part)
    return whole


def _check_op(op: Any, tensor: Any, operation: str) -> RedOpType:
    kind = plain(op)
    low_of(op)
    check_complex(op, tensor, operation)
    if kind is RedOpType.PREMUL_SUM:
        raise ValueError(f"{operation} takes no pre-multiplied sum")
    return kind


def broadcast_multigpu(tensor_list: Sequence[Any], src: int, group: AnyGroup = None, async_op: bool = False,
                       src_tensor: int = 0, *, timeout: Timeout = None) -> Work | None:
    """Copy `tensor_list[src_tensor]` of `src` into every tensor of every rank."""
    pg = _checked(tensor_list, group, "broadcast_multigpu")
    if pg is None:
        return None
    _check_index(src_tensor, tensor_list, "src_tensor")
    root = rank_in_group(pg, src, None)
    _check_writable(tensor_list, "broadcast_multigpu")
    _same_lengths(pg, len(tensor_list), "broadcast_multigpu", timeout)
    first = tensor_list[src_tensor]

    def spread() -> None:
        for position, tensor in enumerate(tensor_list):
            if position != src_tensor:
                copy_into(tensor, first)

    work = Work(pg._low.broadcast(first, root, timeout=timeout, async_op=True))
    return _ended(_followed([work], spread, list(tensor_list)), async_op)


def _check_index(index: int, tensors: Sequence[Any], name: str) -> None:
    if not isinstance(index, int) or not 0 <= index < len(tensors):
        raise ValueError(f"{name} is {index}; the list has {len(tensors)} tensors")


def _divided(tensor: Any, by: int) -> None:
    if _is_torch(tensor):
        tensor.copy_(tensor.div(by, rounding_mode=None if tensor.is_floating_point() or tensor.is_complex()
                                else "trunc"))
        return
    with _beside(tensor):
        if tensor.dtype.kind in "iu":
            sign = 1 - 2 * (tensor < 0) if tensor.dtype.kind == "i" else 1
            tensor[...] = (abs(tensor) // by * sign).astype(tensor.dtype)
        else:
            tensor[...] = (tensor / tensor.dtype.type(by)).astype(tensor.dtype)


def all_reduce_multigpu(tensor_list: Sequence[Any], op: Op = RedOpType.SUM, group: AnyGroup = None,
                        async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """Combine all tensors of all ranks into each of them."""
    pg = _checked(tensor_list, group, "all_reduce_multigpu")
    if pg is None:
        return None
    kind = _check_op(op, tensor_list[0], "all_reduce_multigpu")
    _check_writable(tensor_list, "all_reduce_multigpu")
    whole = _sum_here(tensor_list, kind)
    _same_lengths(pg, len(tensor_list), "all_reduce_multigpu", timeout)
    divisor = len(tensor_list) * len(pg._ranks) if kind is RedOpType.AVG else 0
    low_op, _ = low_of(RedOpType.SUM if divisor else kind)

    def spread() -> None:
        if divisor:
            _divided(whole, divisor)
        for tensor in tensor_list:
            copy_into(tensor, whole)

    work = Work(pg._low.all_reduce(whole, low_op, timeout=timeout, async_op=True))
    return _ended(_followed([work], spread, list(tensor_list)), async_op)


def reduce_multigpu(tensor_list: Sequence[Any], dst: int, op: Op = RedOpType.SUM, group: AnyGroup = None,
                    async_op: bool = False, dst_tensor: int = 0, *, timeout: Timeout = None) -> Work | None:
    """Combine all tensors of all ranks into `tensor_list[dst_tensor]` of `dst`."""
    pg = _checked(tensor_list, group, "reduce_multigpu")
    if pg is None:
        return None
    _check_index(dst_tensor, tensor_list, "dst_tensor")
    root = rank_in_group(pg, dst, None)
    kind = _check_op(op, tensor_list[0], "reduce_multigpu")
    _check_writable([tensor_list[dst_tensor]] if root == pg._own else [], "reduce_multigpu")
    whole = _sum_here(tensor_list, kind)
    _same_lengths(pg, len(tensor_list), "reduce_multigpu", timeout)
    divisor = len(tensor_list) * len(pg._ranks) if kind is RedOpType.AVG else 0
    low_op, _ = low_of(RedOpType.SUM if divisor else kind)

    def give() -> None:
        if root != pg._own:
            return
        if divisor:
            _divided(whole, divisor)
        copy_into(tensor_list[dst_tensor], whole)

    work = Work(pg._low.reduce(whole, root, low_op, timeout=timeout, async_op=True))
    return _ended(_followed([work], give, list(tensor_list)), async_op)


def all_gather_multigpu(output_tensor_lists: Sequence[Sequence[Any]], input_tensor_list: Sequence[Any],
                        group: AnyGroup = None, async_op: bool = False, *, timeout: Timeout = None) -> Work | None:
    """Gather all tensors of all ranks: input j of rank k lands in `output_tensor_lists[i][k * n + j]` for
    every i, where n is the number of inputs."""
    if not isinstance(output_tensor_lists, (list, tuple)):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for tensors in output_tensor_lists:
        check_list(tensors, "output_tensor_lists")
    pg = _checked(input_tensor_list, group, "all_gather_multigpu")
    if pg is None:
        return None
    inputs, size = len(input_tensor_list), len(pg._ranks)
    check_same_dtype(input_tensor_list, *output_tensor_lists)
    _check_one_library(itertools.chain(input_tensor_list, *output_tensor_lists), "all_gather_multigpu")
    if len(output_tensor_lists) != inputs:
        raise ValueError(f"all_gather_multigpu: {len(output_tensor_lists)} output lists for {inputs} inputs; give one "
                         f"for each")
    for tensors in output_tensor_lists:
        if len(tensors) != inputs * size:
            raise ValueError(f"all_gather_multigpu: an output list has {len(tensors)} tensors; it must have "
                             f"{inputs} x {size} = {inputs * size}")
    outputs = [tensor for row in output_tensor_lists for tensor in row]
    if any(count_of(tensor) != count_of(input_tensor_list[0]) for tensor in outputs):
        raise ValueError("all_gather_multigpu: the outputs must have the size of the inputs")
    _check_writable(outputs, "all_gather_multigpu")
    _same_lengths(pg, inputs, "all_gather_multigpu", timeout)
    first = output_tensor_lists[0]
    works = [Work(pg._low.all_gather_list([first[k * inputs + j] for k in range(size)], _near(first[0], tensor), timeout=timeout,
                                          async_op=True))
             for j, tensor in enumerate(input_tensor_list)]

    def spread() -> None:
        for tensors in output_tensor_lists[1:]:
            for target, source in zip(tensors, first):
                copy_into(target, source)

    return _ended(_followed(works, spread, outputs), async_op)

