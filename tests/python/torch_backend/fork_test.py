"""The promises of docs/design/threads.md about forks, through torch.distributed; errors_test.py has those about the end of a rank."""

import os

import pytest
import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401
from forked import on_ranks
from raising import in_fork


def refused(call):
    with pytest.raises(RuntimeError, match="this process was forked after init_process_group"):
        call()


def child(group, work):
    x = torch.ones(3)
    for call in (dist.barrier, lambda: dist.all_reduce(x), lambda: dist.all_reduce(x, group=group), lambda: dist.send(x, 1 - dist.get_rank()),
                 lambda: dist.all_reduce(x, async_op=True).wait(), lambda: dist.all_gather_object([None] * 2, 1), work.wait,
                 lambda: work.get_future().wait()):
        refused(call)
    # is_initialized is torch's own, which does not know of forks: its record is cleared by destroying the world.
    assert dist.is_initialized()
    dist.destroy_process_group()
    assert not dist.is_initialized()
    dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(x, op=dist.ReduceOp.SUM)
    assert x.tolist() == [1] * 3
    dist.destroy_process_group()


@on_ranks(2)
def test_a_forked_child_is_refused_and_may_make_its_own_world(rank, size):
    group = dist.new_group(list(range(size)))
    work = dist.irecv(buffer := torch.zeros(3), (rank + 1) % size)
    assert in_fork(child, group, work) == 0
    assert in_fork(lambda: os._exit(in_fork(child, group, work))) == 0
    dist.barrier()
    dist.send(torch.full((3,), 2.0), (rank - 1) % size)
    work.wait()
    assert buffer.tolist() == [2] * 3
    dist.all_reduce(buffer, group=group)
    assert buffer.tolist() == [2 * size] * 3
