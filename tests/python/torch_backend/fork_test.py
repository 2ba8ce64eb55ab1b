"""The promises of docs/threads.md about forks and the end of a process, through torch.distributed."""

import os
import signal
import time
import traceback

import pytest
import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401
from forked import begin, on_ranks, run_each


def in_fork(body, *arguments):
    """The exit code of a child that runs this."""
    child = os.fork()
    if child == 0:
        try:
            body(*arguments)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


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
    assert in_fork(in_fork, child, group, work) == 0
    dist.barrier()
    dist.send(torch.full((3,), 2.0), (rank - 1) % size)
    work.wait()
    assert buffer.tolist() == [2] * 3
    dist.all_reduce(buffer, group=group)
    assert buffer.tolist() == [2 * size] * 3




ENDS = {"SIGKILL": (lambda: os.kill(os.getpid(), signal.SIGKILL), -9), "os._exit": (lambda: os._exit(3), 3),
        "another program": (lambda: os.execv("/bin/sleep", ["sleep", "0.5"]), 0)}


def body_ends(how):
    rank, _ = begin()
    dist.barrier()
    if rank == 1:
        ENDS[how][0]()
    start = time.monotonic()
    with pytest.raises(dist.DistError, match="rank 1"):
        dist.all_reduce(torch.ones(3))
    assert time.monotonic() - start < 20


@pytest.mark.parametrize("how", ENDS)
def test_a_rank_that_dies_is_told(how):
    ended = run_each(body_ends, 2, how)
    assert [one.status for one in ended] == [0, ENDS[how][1]], "\n".join(one.text for one in ended)
