"""The c10d plug-in: torch's DDP trains on it, and gets what Gloo computes."""

import os
import subprocess
import sys
import textwrap

import pytest

import ranks

pytest.importorskip("torch", reason="torch is not installed (./dev deps torch)")
pytest.importorskip("tutti_torch", reason="the plug-in is not built (./dev test torch)")

BODY = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import tutti_torch

torch.set_num_threads(1)
"""

TRAIN = """
def train(backend, port):
    os.environ["MASTER_PORT"] = port
    dist.init_process_group(backend)
    torch.manual_seed(dist.get_rank())  # DDP must give all the weights of rank 0
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))
    model = DistributedDataParallel(model, bucket_cap_mb=0.001)  # several buckets under way at once
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen = []
    for step in range(20):
        torch.manual_seed(1000 * step + dist.get_rank())
        optimizer.zero_grad()
        model(torch.randn(16, 8)).square().mean().backward()
        seen += [p.grad.clone() for p in model.parameters()]
        optimizer.step()
    seen += [p.detach().clone() for p in model.parameters()]
    # Gloo's threads may ask for the GIL when they drop their last work, and who destroys the group
    # waits for them with it: not ours to test.
    if backend == "tutti":
        dist.destroy_process_group()
    return seen

ours, gloo = train("tutti", sys.argv[1]), train("gloo", sys.argv[2])
assert len(ours) == len(gloo)
assert all(torch.equal(a, b) for a, b in zip(ours, gloo)), "two addends: every order gives the same bits"
dist.barrier()
os._exit(0)
"""

OPERATIONS = """
os.environ["MASTER_PORT"] = sys.argv[1]
dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
x = torch.full((4, 4), rank + 1.0).t()[::2]
dist.all_reduce(x)
assert (x == size * (size + 1) / 2).all()
dist.broadcast(x, 1)
every = [torch.zeros(3, dtype=torch.int64) for _ in range(size)]
dist.all_gather(every, torch.full((3,), -rank))
assert all((t == -r).all() for r, t in enumerate(every))
dist.barrier()
work = dist.all_reduce(x, async_op=True)
future = work.get_future().then(lambda f: f.value()[0].sum().item())  # runs on the progress thread
assert future.wait() == x.sum().item()
pair = dist.new_group([1, 0])
dist.all_reduce(x, group=pair)
try:
    dist.all_reduce(torch.zeros(3 + rank))
except dist.DistBackendError as problem:
    assert "rank" in str(problem)
else:
    raise AssertionError("3 and 4 elements were added")
failed = pair.allreduce([torch.zeros(1)]).get_future() if rank == 0 else None
if rank == 1:
    os._exit(0)
try:
    failed.wait()
except Exception as problem:
    assert "rank" in str(problem), problem
else:
    raise AssertionError("rank 1 is gone")
os._exit(0)
"""


def run(body, size=2):
    environment = dict(os.environ, WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1")
    ports = [str(ranks.free_port()) for _ in range(2)]
    jobs = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(BODY + body), *ports],
                             env=dict(environment, RANK=str(rank)), stdin=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True) for rank in range(size)]
    try:
        for rank, job in enumerate(jobs):
            _, problem = job.communicate(timeout=60)
            assert job.returncode == 0, f"rank {rank}: {job.returncode}\n{problem}"
    finally:
        for job in jobs:
            job.kill()
            job.communicate()


def test_ddp_gets_the_gradients_that_gloo_gives():
    run(TRAIN)


def test_operations_futures_and_errors():
    run(OPERATIONS)
