"""The operations of one parallel group of vLLM. vLLM imports this by its name when it makes the first group."""

import pickle
from typing import Any

import torch
import torch.distributed as dist
import tutti.torch
from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator


class Communicator(CpuCommunicator):  # type: ignore[misc]  # vLLM has no types here
    """vLLM calls these for a group on CPUs. Operations that are not here are vLLM's own, on torch.distributed.

    Errors are those of tutti.torch; they name the rank by its number in the group.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """As vLLM's."""
        super().__init__(*arguments, **options)
        self.dist_module = dist
        self.supports_tensor_dict = True
        self._name = self.device_group.group_name  # the quickest way to say which group

    def _all_group_ranks_share_shm_group_name(self) -> bool:
        # vLLM asks this before it sets up shared memory of its own, on CPUs with AVX-512.
        return False

    def all_reduce(self, input_: torch.Tensor) -> torch.Tensor:
        """The sum of all ranks, in place. An operator, which torch.compile keeps as one node of its graph."""
        return tutti.torch.all_reduce_(input_, group=self._name)

    def all_gatherv(self, input_: torch.Tensor | list[torch.Tensor], dim: int = 0,
                    sizes: list[int] | None = None) -> torch.Tensor | list[torch.Tensor]:
        """The rows of all ranks; rank r has sizes[r] of them, or all have as many."""
        if isinstance(input_, list):
            return [self.all_gatherv(each, dim, sizes) for each in input_]
        if dim != 0:
            raise NotImplementedError(f"tutti-vllm: all_gatherv of dimension {dim}; vLLM has dimension 0 only")
        sizes = self._sizes(input_.shape[0], sizes)
        output = input_.new_empty((sum(sizes), *input_.shape[1:]))
        dist.all_gather(list(output.split(sizes)), input_.contiguous(), group=self.device_group)
        return output

    def reduce_scatterv(self, input_: torch.Tensor, dim: int = -1, sizes: list[int] | None = None) -> torch.Tensor:
        """The sum of all ranks, of which rank r gets sizes[r] rows along `dim`, or all get as many."""
        rows = input_.movedim(dim, 0).contiguous()
        if sizes is None:
            if rows.shape[0] % self.world_size != 0:
                raise ValueError(f"tutti-vllm: reduce_scatterv: {rows.shape[0]} rows cannot be divided among "
                                 f"{self.world_size} ranks; give sizes")
            sizes = [int(rows.shape[0]) // self.world_size] * self.world_size
        elif len(sizes) != self.world_size or sum(sizes) != rows.shape[0]:
            raise ValueError(f"tutti-vllm: reduce_scatterv: sizes {sizes} do not divide {rows.shape[0]} rows among "
                             f"{self.world_size} ranks")
        output = rows.new_empty((sizes[self.rank_in_group], *rows.shape[1:]))
        dist.reduce_scatter(output, list(rows.split(sizes)), group=self.device_group)
        return output.movedim(0, dim).contiguous()

    def _sizes(self, rows: int, sizes: list[int] | None) -> list[int]:
        """The rows of each rank."""
        if sizes is None:
            return [rows] * self.world_size
        if len(sizes) != self.world_size or sizes[self.rank_in_group] != rows:
            raise ValueError(f"tutti-vllm: all_gatherv: sizes {sizes} do not fit rank {self.rank_in_group} of "
                             f"{self.world_size}, which has {rows} rows")
        return sizes

    # Pipeline parallelism: one stage gives tensors to the next. `dst` and `src` are ranks of the group.

    def send_tensor_dict(self, tensor_dict: dict[str, torch.Tensor | Any], dst: int) -> None:
        """Sends tensors, and other values pickled, to one rank. Returns when the tensors may be used again."""
        tensors = [value for value in tensor_dict.values() if isinstance(value, torch.Tensor)]
        described = [(key, (value.dtype, tuple(value.shape)) if isinstance(value, torch.Tensor) else None,
                      None if isinstance(value, torch.Tensor) else value) for key, value in tensor_dict.items()]
        head = torch.frombuffer(bytearray(pickle.dumps(described)), dtype=torch.uint8)
        for tensor in (torch.tensor([head.numel()]), head, *tensors):
            dist.send(tensor.contiguous(), self.ranks[dst], self.device_group)

    def recv_tensor_dict(self, src: int) -> dict[str, torch.Tensor | Any]:
        """The dict that send_tensor_dict of that rank has sent."""
        length = torch.empty(1, dtype=torch.int64)
        dist.recv(length, self.ranks[src], self.device_group)
        head = torch.empty(int(length), dtype=torch.uint8)
        dist.recv(head, self.ranks[src], self.device_group)
        # The group's ranks have proved that they belong to the job, or tutti.torch would not have made it.
        received = {}
        for key, tensor, value in pickle.loads(head.numpy().tobytes()):
            if tensor is not None:
                dtype, shape = tensor
                value = torch.empty(shape, dtype=dtype)
                dist.recv(value, self.ranks[src], self.device_group)
            received[key] = value
        return received
