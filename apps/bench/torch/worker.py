"""A rank of all_reduce.py: tells its variants, then answers each order with the seconds of one call."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])

Call = Callable[[torch.Tensor], Any]


def of_tutti() -> dict[str, Call]:
    """The operator for inference, and the call of torch.distributed."""
    import tutti.torch

    dist.init_process_group("tutti")
    operator, group = torch.ops.tutti.all_reduce_.default, dist.group.WORLD.group_name
    assert tutti.torch
    return {"operator": lambda tensor: operator(tensor, "sum", group), "tutti": dist.all_reduce}


def of_gloo() -> dict[str, Call]:
    """The backend that torch has for CPUs."""
    dist.init_process_group("gloo")
    return {"gloo": dist.all_reduce}


def of_deepspeed() -> dict[str, Call]:
    """DeepSpeed's shared-memory all_reduce, from the sources in its package; torch compiles them when first used."""
    from torch.utils import cpp_extension

    os.environ["LOCAL_SIZE"] = str(SIZE)
    dist.init_process_group("gloo")
    found = importlib.util.find_spec("deepspeed")
    assert found is not None and found.submodule_search_locations
    folder = os.path.join(found.submodule_search_locations[0], "ops", "csrc", "cpu")

    def built() -> Any:
        # With the flags of DeepSpeed's own ShareMemCommBuilder.
        return cpp_extension.load(
            "tutti_bench_deepspeed_shm", [os.path.join(folder, "comm", f"{name}.cpp") for name in ("shm_interface", "shm")],
            extra_cflags=["-O2", "-fopenmp"], extra_include_paths=[os.path.join(folder, "includes")])

    if RANK == 0:
        built()
    dist.barrier()
    built().initialize(SIZE, RANK)
    return {"deepspeed": torch.ops.deepspeed.inference_all_reduce_}


SIDES = {"tutti": of_tutti, "gloo": of_gloo, "deepspeed": of_deepspeed}


def main() -> None:
    """Answers until stdin ends."""
    torch.set_num_threads(1)
    variants = SIDES[sys.argv[1]]()
    print(json.dumps(list(variants)), flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            order = json.loads(line)
            call = variants[order["variant"]]
            tensor = torch.full((order["elements"],), RANK + 1.0, dtype=getattr(torch, order["dtype"]))
            call(tensor)
            if not torch.all(tensor == SIZE * (SIZE + 1) / 2):
                raise SystemExit(f"{order['variant']} gave a wrong sum: {tensor}")
            tensor.zero_()  # stays so under summing
            for _ in range(order["calls"] // 10 + 1):
                call(tensor)
            begin = time.perf_counter()
            for _ in range(order["calls"]):
                call(tensor)
            print((time.perf_counter() - begin) / order["calls"], flush=True)


if __name__ == "__main__":
    main()
