"""A rank of training.py: answers each order with the seconds of steps of data-parallel training."""

import contextlib
import copy
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

Event = tuple[str, float, float]  # what, and when it began and ended


def divide(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The work of DistributedDataParallel on a bucket, without the communication."""
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer().div_(dist.get_world_size()))
    return done


class Training:
    """A model of equal layers, as it is, with DistributedDataParallel, and with FSDP2."""

    def __init__(self, layers: int, width: int, batch: int) -> None:
        torch.manual_seed(1)
        blocks = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU()) for _ in range(layers)]
        self.plain = torch.nn.Sequential(*blocks)
        self.inputs = torch.randn(batch, width)
        sharded = copy.deepcopy(self.plain)
        for block in sharded:
            fully_shard(block)
        self.sharded = fully_shard(sharded)
        self.parallel = DistributedDataParallel(copy.deepcopy(self.plain), gradient_as_bucket_view=True)
        self.silent = DistributedDataParallel(copy.deepcopy(self.plain), gradient_as_bucket_view=True)
        self.silent.register_comm_hook(None, divide)
        parameters = sum(one.numel() for one in self.plain.parameters())
        size = 25 << 18  # elements of a bucket of DistributedDataParallel
        self.buckets = [torch.zeros(min(size, parameters - begin)) for begin in range(0, parameters, size)]

    def step(self, model: torch.nn.Module) -> None:
        """Without an optimizer, which communicates nothing. Gradients keep their memory: new pages cost as much."""
        model(self.inputs).square().mean().backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.zero_()

    def timed(self, steps: int, call: Callable[[], Any]) -> float:
        """Seconds of one of the steps, all ranks beginning together."""
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            call()
        return (time.perf_counter() - begin) / steps

    def ddp(self, steps: int) -> dict[str, float]:
        """DistributedDataParallel."""
        def reduce_buckets() -> None:
            for bucket in self.buckets:
                dist.all_reduce(bucket)

        whole = self.timed(steps, lambda: self.step(self.parallel))
        without = self.timed(steps, lambda: self.step(self.silent))
        return {"ddp: step": whole, "ddp: without communication": without, "ddp: communication": whole - without,
                "ddp: buckets": self.timed(steps, reduce_buckets)}

    def fsdp(self, steps: int) -> dict[str, float]:
        """FSDP2: all_gather of parameters, twice, and reduce_scatter of gradients, layer by layer."""
        whole = self.timed(steps, lambda: self.step(self.sharded))
        without = self.timed(steps, lambda: self.step(self.plain))
        return {"fsdp: step": whole, "fsdp: communication": whole - without}

    def trace(self) -> list[Event]:
        """One step of DistributedDataParallel, with the events of its buckets."""
        model = DistributedDataParallel(copy.deepcopy(self.plain), gradient_as_bucket_view=True)
        events: list[Event] = []
        began = 0.0

        def hook(group: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            begin = time.perf_counter() - began
            name = f"bucket {bucket.index()}, {bucket.buffer().nbytes / 1e6:.1f} MB"

            def ended(future: torch.futures.Future[Any]) -> torch.Tensor:
                events.append((name, begin, time.perf_counter() - began))
                tensor: torch.Tensor = future.value()[0]
                return tensor
            work = dist.all_reduce(bucket.buffer(), async_op=True)
            return work.get_future().then(ended)  # type: ignore[no-any-return]

        model.register_comm_hook(None, hook)
        for _ in range(3):
            events.clear()
            loss = model(self.inputs).square().mean()
            computed = [0.0]
            # The input's side of backward comes last: the first layer's weight.
            handle = model.module[0][0].weight.register_hook(
                lambda grad, computed=computed: computed.__setitem__(0, time.perf_counter() - began))
            dist.barrier()
            began = time.perf_counter()
            loss.backward()
            handle.remove()
            events.append(("backward", 0.0, computed[0]))
        return events


def main() -> None:
    """Answers until stdin ends."""
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(sys.stderr):
        if sys.argv[1] == "tutti":
            import tutti.torch
            assert tutti.torch
        dist.init_process_group(sys.argv[1])
        training = Training(**json.loads(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        kind = order.pop("kind")
        print(json.dumps(getattr(training, kind)(**order)), flush=True)


if __name__ == "__main__":
    main()
