"""Errors are torch's classes, and name what is wrong and which rank it was."""

import os
import signal
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401
from forked import all_come, begin, on_ranks, run_each

# How a rank ends, and its exit status; for "future" the others wait for theirs.
ENDS = {"kill": (lambda: os.kill(os.getpid(), signal.SIGKILL), -9), "exit": (lambda: os._exit(77), 77),
        "future": (lambda: os._exit(77), 77), "another program": (lambda: os.execv("/bin/sleep", ["sleep", "0.5"]), 0)}


def gather_to(root):
    options = dist.GatherOptions()
    options.rootRank = root
    return options


@on_ranks(2)
def test_bad_calls(rank):
    group = dist.group.WORLD._get_backend(torch.device("cpu"))
    one, two = torch.ones(1), torch.ones(2)
    for wrong, kind, text in [
        (lambda: dist.all_reduce(one, op=dist.ReduceOp.BAND), ValueError, "BAND of float32 has no meaning"),
        (lambda: group.allreduce([torch.ones(2, dtype=torch.complex32)]), TypeError, "cannot be combined"),
        (lambda: group.allreduce([one.to("meta")]), ValueError, "and this backend takes tensors of the CPU and of NVIDIA GPUs"),
        (lambda: group.allreduce([one, two]), ValueError, "all_reduce: one tensor is wanted, 2 are given"),
        (lambda: group.allgather([[one]], [one]), ValueError, "it must have one for each of the 2 ranks"),
        (lambda: dist.all_gather([two, two], one), ValueError, "all_gather"),
        (lambda: dist.all_gather_single(one, two), ValueError, "all_gather"),
        (lambda: dist.reduce_scatter_single(one, torch.ones(5)), ValueError, "reduce_scatter"),
        (lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)), ValueError, "does not divide equally"),
        (lambda: dist.all_to_all_single(two, two, [1, 1], [1, 2]), ValueError, "Split sizes doesn't match"),
        (lambda: dist.all_to_all_single(two, two, [1, 1], [3, -1]), ValueError, "Split sizes doesn't match"),
        (lambda: dist.all_to_all_single(two, two, [2], [1, 1]), ValueError, "Number of tensor splits not equal"),
        (lambda: dist.all_to_all([one], [one, one]), ValueError, "both lists must have a tensor for each of the 2"),
        (lambda: dist.reduce(one, group_dst=(1 << 32) + 1), ValueError, "root must be a rank of the group, not 4294967297"),
        (lambda: dist.broadcast(one, group_src=-1 << 32), ValueError, "root must be a rank of the group, not -4294967296"),
        (lambda: group.broadcast(one, 5), ValueError, "root must be a rank of the group, 0 to 1"),
        (lambda: group.gather([[one, one]], [one], gather_to(1 - rank)), ValueError, "only the destination"),
        (lambda: group.send([one], 7, 0), ValueError, "the receiver must be a rank of the group, 0 to 1"),
        (lambda: group.send([one], 0, -1), ValueError, "a tag must not be negative"),
        (lambda: group.recv([one], -1, 0), ValueError, "the sender must be a rank of the group, not -1"),
        (lambda: dist.all_reduce(torch.ones(1).expand(4)), ValueError, "several elements share memory"),
        (lambda: group.allreduce_coalesced([]), ValueError, "the list of tensors is empty"),
        (lambda: group._end_coalescing(), ValueError, "no operations of this group are coalesced"),
    ]:
        with pytest.raises(kind, match=text):
            wrong()
    # An error among coalesced operations ends that.
    with pytest.raises(ValueError, match="a tag must not be negative"):
        dist.batch_isend_irecv([dist.P2POp(dist.isend, one, 1 - rank), dist.P2POp(dist.irecv, one, 1 - rank, tag=-1)])
    with pytest.raises(ValueError, match="no operations of this group are coalesced"):
        group._end_coalescing()
    dist.distributed_c10d._world.pg_coalesce_state.clear()  # torch leaves its own list behind
    dist.all_reduce(two)  # the group goes on
    assert (two == 2).all()


@on_ranks(2)
def test_disagreement(rank):
    with pytest.raises(dist.DistBackendError, match=r"rank [01].*all_reduce\(SUM, float32 x 3\)") as told:
        dist.all_reduce(torch.zeros(3 + rank))
    assert "float32 x 4" in str(told.value)
    with pytest.raises(dist.DistBackendError):
        dist.barrier()


def body_killed(how):
    rank, _ = begin(seconds=3600)  # a death is not waited for: the limit of the test would end it
    dist.barrier()
    if rank == 2:
        ENDS[how][0]()
    x = torch.ones(10)
    if how == "future":
        with pytest.raises(Exception, match="rank 2"):
            dist.all_reduce(x, async_op=True).get_future().wait()
    else:
        with pytest.raises(dist.DistNetworkError, match="rank 2"):
            dist.all_reduce(x)
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    assert not work.is_success() and "rank 2" in str(work.exception())


@pytest.mark.parametrize("how", ENDS)
def test_a_dead_rank_is_named(how):
    ended = run_each(body_killed, 3, how)
    assert [one.status for one in ended] == [0, 0, ENDS[how][1]], ended


@on_ranks(2)
def test_a_rank_that_does_not_come_is_named(rank):
    dist.barrier()
    if rank == 0:
        dist.group.WORLD.set_timeout(timedelta(seconds=1))
        with pytest.raises(dist.DistBackendError, match="waiting for rank 1"):
            dist.all_reduce(torch.ones(1))
    all_come()


@on_ranks(3)
def test_a_monitored_barrier_names_who_has_not_come(rank):
    group, long = dist.group.WORLD, timedelta(seconds=60)
    group.monitored_barrier(long, False)
    all_come()
    if rank == 0:
        with pytest.raises(RuntimeError, match=r"\[Rank 0\]: Ranks 1 failed to pass monitoredBarrier in 2000 ms"):
            group.monitored_barrier(timedelta(seconds=2), True)
    elif rank == 2:
        with pytest.raises(RuntimeError, match="Rank 2 successfully reached monitoredBarrier"):
            group.monitored_barrier(long, False)
    all_come()
    if rank == 1:
        with pytest.raises(RuntimeError, match="Rank 1 successfully reached monitoredBarrier, but received errors"):
            group.monitored_barrier(long, False)


@on_ranks(2)
def test_abort_is_told_to_all(rank):
    dist.barrier()
    if rank == 1:
        time.sleep(0.2)
        dist.group.WORLD.abort()
        return
    with pytest.raises(dist.DistBackendError, match="rank 1: torch's abort"):
        dist.all_reduce(torch.ones(1))
