"""DistributedDataParallel on ranks that die or stop in backward, and for many steps."""

import gc
import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch._dynamo  # here, so that it is imported once and not in every process
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tutti.torch  # noqa: F401
from forked import begin, check_killed, run
from ranks import LONG

LOST = 1


def made_model():
    torch.manual_seed(7)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(16, 16), torch.nn.Tanh())]
    return DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.001)


def step(model, rank):
    model(torch.full((4, 16), rank + 1.0)).square().mean().backward()


def body_lost(how, kind):
    """One rank is lost half way through a backward; each of the others is told which one."""
    rank, _ = begin()
    store = dist.distributed_c10d._get_default_store()
    model = made_model()
    step(model, rank)
    step(model, rank)
    if how == signal.SIGSTOP:
        dist.group.WORLD.set_timeout(timedelta(seconds=2))
    if rank == LOST:
        store.set("pid", str(os.getpid()))
        model.module[4].weight.register_hook(lambda grad: os.kill(os.getpid(), how))
    # After the first failure, too, the group says why.
    for _ in range(2):
        with pytest.raises(kind, match=f"rank {LOST}"):
            step(model, rank)
            dist.barrier()
    # Nobody ends before all have been told. Rank 0 serves the store, and ends what is stopped.
    store.add("told", 1)
    while rank == 0 and store.add("told", 0) < dist.get_world_size() - 1:
        time.sleep(0.01)
    if rank == 0 and how == signal.SIGSTOP:
        os.kill(int(store.get("pid")), signal.SIGKILL)


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def body_many_steps():
    rank, _ = begin()
    model = made_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train(count):
        for _ in range(count):
            optimizer.zero_grad()
            step(model, rank)
            optimizer.step()
        gc.collect()
        return resident(), len(os.listdir("/proc/self/fd"))

    memory, files = train(1000)  # until then rings and caches are first used
    after, files_after = train(9000)
    dist.barrier()
    assert after - memory < 1 << 20, f"9,000 steps needed {after - memory} bytes more"
    assert files_after == files


@pytest.mark.parametrize("how, kind", [(signal.SIGKILL, dist.DistNetworkError), (signal.SIGSTOP, dist.DistBackendError)],
                         ids=["killed", "stopped"])
def test_a_rank_that_is_lost_in_backward_is_named(how, kind):
    check_killed(body_lost, 3, LOST, how, kind)


if LONG:
    def test_many_steps_leave_memory_and_descriptors_where_they_were():
        run(body_many_steps, 2, limit=300)
