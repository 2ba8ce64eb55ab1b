"""The class of which Ray makes an object for each group. Only `register` imports it, since it needs Ray."""

from typing import Any

import tutti
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import ReduceOp

from ._rendezvous import meet

_OPS = {ReduceOp.SUM: tutti.ReduceOp.SUM, ReduceOp.PRODUCT: tutti.ReduceOp.PRODUCT,
        ReduceOp.MIN: tutti.ReduceOp.MIN, ReduceOp.MAX: tutti.ReduceOp.MAX}


class TuttiGroup(BaseGroup):  # type: ignore[misc]  # Ray has no types
    """A group of Ray on tutti. Ray calls it with each tensor in a list, and each list of tensors in a list.

    Every operation blocks, works in place, and raises tutti's errors, which a caller of the actor finds in its
    RayTaskError. Any thread of the actor may call it; all ranks must call the same operations in the same order.
    """

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        """Blocks until all ranks have come; tutti.TimeoutError after TUTTI_TIMEOUT names those that have not."""
        super().__init__(world_size, rank, group_name)
        self._group = meet(group_name, rank, world_size)

    @classmethod
    def backend(cls) -> str:
        """The name by which Ray knows it."""
        return "TUTTI"

    @classmethod
    def check_backend_availability(cls) -> bool:
        """True: the library is part of the package."""
        return True

    def destroy_group(self) -> None:
        """Closes the group. It does not wait for other ranks; calls on it raise tutti.InvalidArgument from now on."""
        self._group.close()

    # The defaults are those of a call without options: Ray gives barrier none.

    def allreduce(self, tensor: list[Any], allreduce_options: Any = None) -> None:
        """Combines the tensors of all ranks into each of them."""
        self._group.all_reduce(_only(tensor), _op(allreduce_options))

    def barrier(self, barrier_options: Any = None) -> None:
        """Returns when all ranks have called it."""
        self._group.barrier()

    def reduce(self, tensor: list[Any], reduce_options: Any = None) -> None:
        """Combines the tensors of all ranks into the root's. The others keep their values."""
        self._group.reduce(_only(tensor), getattr(reduce_options, "root_rank", 0), _op(reduce_options))

    def allgather(self, tensor_list: list[list[Any]], tensor: list[Any], allgather_options: Any = None) -> None:
        """Puts the tensor of rank r into element r of everybody's list."""
        self._group.all_gather_list(_only(tensor_list), _only(tensor))

    def broadcast(self, tensor: list[Any], broadcast_options: Any = None) -> None:
        """Copies the root's tensor to all ranks."""
        self._group.broadcast(_only(tensor), getattr(broadcast_options, "root_rank", 0))

    def reducescatter(self, tensor: list[Any], tensor_list: list[list[Any]], reducescatter_options: Any = None) -> None:
        """Combines the elements r of all lists into the tensor of rank r. The lists keep their values."""
        self._group.reduce_scatter_list(_only(tensor), _only(tensor_list), _op(reducescatter_options))

    def send(self, tensor: list[Any], send_options: Any) -> None:
        """Returns when the tensor may be used again."""
        self._group.send(_whole(tensor, send_options), send_options.dst_rank)

    def recv(self, tensor: list[Any], recv_options: Any) -> None:
        """Waits for a tensor of this dtype and number of elements from that rank."""
        self._group.recv(_whole(tensor, recv_options), recv_options.src_rank)


def _only(tensors: list[Any]) -> Any:
    """The one tensor, or list of tensors, of a call."""
    if len(tensors) != 1:
        raise ValueError(f"tutti.ray: one tensor of each rank in a call, not {len(tensors)}; the functions of Ray that end "
                         "in _multigpu are for several GPUs of a process, on NCCL")
    return tensors[0]


def _whole(tensors: list[Any], options: Any) -> Any:
    """The tensor of a send or recv, which moves all of it."""
    if getattr(options, "n_elements", 0):
        raise ValueError("tutti.ray: n_elements is not supported; send and receive a slice of the tensor")
    return _only(tensors)


def _op(options: Any) -> tutti.ReduceOp:
    """The reduce op of a call."""
    op = getattr(options, "reduceOp", ReduceOp.SUM)
    # For allreduce Ray stores the op in a class that all threads share, so read it before anything else.
    try:
        return _OPS[op]
    except (KeyError, TypeError):
        raise ValueError("tutti.ray: op must be SUM, PRODUCT, MIN or MAX of ray.util.collective.types.ReduceOp, "
                         f"not {op!r}") from None
