"""Works, futures and what else a group has."""

import copy
import gc
import sys
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import tutti.torch
from forked import begin, on_ranks, run_each


@on_ranks(2)
def test_futures(rank):
    x = torch.ones(4)
    work = dist.all_reduce(x, async_op=True)
    threads = []

    def chained(future):
        threads.append(threading.current_thread())
        inner = dist.all_reduce(torch.ones(1), async_op=True)  # a new operation may begin there
        assert inner.wait()
        return future.value()[0].sum().item()

    future = work.get_future().then(chained)
    assert future.wait() == 8.0
    assert len(threads) == 1
    assert work.is_completed() and work.is_success() and work.wait()
    assert torch.equal(work.result()[0], x)
    # The callback may wait for the future of such an operation, too. Rank 1 begins each one when rank 0 waits.
    def nested(_):
        if rank == 1:
            dist.recv(torch.empty(1), 0)
        again = dist.all_reduce(torch.ones(2), async_op=True).get_future().then(lambda done: done.value()[0] * 3)
        if rank == 0:
            dist.send(torch.ones(1), 1)
        return again.wait()

    if rank == 1:
        dist.recv(torch.empty(1), 0)
    future = dist.all_reduce(x, async_op=True).get_future().then(nested)
    if rank == 0:
        dist.send(torch.ones(1), 1)
    assert future.wait().tolist() == [6.0, 6.0]
    # One that was waited for before somebody asks.
    work = dist.all_reduce(x, async_op=True)
    work.wait()
    assert torch.equal(work.get_future().value()[0], x)
    # Several tensors, and none.
    into = [torch.empty(2) for _ in range(2)]
    work = dist.all_gather(into, torch.full((2,), float(rank)), async_op=True)
    assert [t[0].item() for t in work.get_future().wait()] == [0.0, 1.0]
    assert dist.barrier(async_op=True).get_future().wait() == []
    # Many are under way at once, and are waited for in another order.
    values = [torch.full((1000,), float(i)) for i in range(30)]
    works = [dist.all_reduce(v, async_op=True) for v in values]
    for i in reversed(range(30)):
        works[i].wait()
        assert (values[i] == 2 * i).all()


@on_ranks(2)
def test_dropped_works(rank):
    """Nobody holds the Works nor the tensors: what runs keeps the memory."""
    if rank == 1:
        time.sleep(0.3)
    for _ in range(20):
        dist.all_reduce(torch.ones(50000), async_op=True)
        dist.isend(torch.full((50000,), float(rank)), 1 - rank)
    gc.collect()
    for _ in range(20):
        x = torch.empty(50000)
        dist.recv(x, 1 - rank)
        assert (x == 1 - rank).all()
    dist.barrier()


@on_ranks(2)
def test_waits(rank):
    if rank == 0:
        x = torch.zeros(1)
        work = dist.irecv(x, 1)
        assert not work.is_completed()
        with pytest.raises(dist.DistBackendError, match="not done within 50 ms; the operation goes on"):
            work.wait(timedelta(milliseconds=50))
        ended = []
        others = [threading.Thread(target=lambda: ended.append(work.wait())) for _ in range(3)]
        for other in others:
            other.start()
        assert not work.is_completed()  # and does not block
        dist.send(torch.ones(1), 1)
        for other in others:
            other.join()
        assert ended == [True] * 3 and x.item() == 5.0
        assert work.is_completed() and work._source_rank() == 1
    else:
        assert dist.recv(torch.empty(1)) == 0  # from any source
        dist.send(torch.full((1,), 5.0), 0)
    work = dist.all_reduce(torch.ones(1), async_op=True)
    work.wait()
    with pytest.raises(ValueError, match="only a recv that is done has one"):
        work._source_rank()


@on_ranks(2)
def test_future_of_a_waited_work(rank):
    """get_future leaves the interpreter to others while a thread waits for the same Work."""
    if rank == 1:
        x = torch.zeros(1)
        dist.recv(x, 0)
        dist.send(x + 1, 0)
        return
    x = torch.zeros(1)
    work = dist.irecv(x, 1)
    waiting = threading.Thread(target=work.wait)
    waiting.start()
    time.sleep(0.1)  # until it waits; sooner or later, the others must go on
    asking = threading.Thread(target=work.get_future)
    asking.start()
    time.sleep(0.1)
    dist.send(torch.ones(1), 1)  # what both wait for comes only after this
    waiting.join()
    asking.join()
    assert x.item() == 2


@on_ranks(2)
def test_synchronize_leaves_the_interpreter_to_others(rank):
    x = torch.zeros(1)
    if rank == 1:
        dist.recv(x, 0)
        dist.send(x + 1, 0)
        return
    work, waits = dist.irecv(x, 1), threading.Event()

    def send():
        waits.wait()
        dist.send(torch.ones(1), 1)  # what the main thread waits for comes only after this

    sending = threading.Thread(target=send)
    sending.start()
    sys.setswitchinterval(1000)  # only who lets go of the GIL loses it
    waits.set()
    work.synchronize()
    sending.join()
    assert x.item() == 2


@on_ranks(2)
def test_polled_works(rank):
    """is_completed alone brings it to its end."""
    x = torch.ones(100000)
    work = dist.all_reduce(x, async_op=True)
    while not work.is_completed():
        time.sleep(0.001)
    assert (x == 2).all()
    sending = dist.isend(x, 1 - rank)
    receiving = dist.irecv(torch.empty(100000), 1 - rank)
    while not (sending.is_completed() and receiving.is_completed()):
        time.sleep(0.001)


@on_ranks(2)
def test_life_of_a_group(rank):
    group = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert group.name() == "tutti" and group.rank() == rank and group.size() == 2
    assert group.options._timeout == timedelta(seconds=60) and group.supports_splitting and group.supports_coalescing
    assert isinstance(copy.deepcopy(group.options), tutti.torch.Options)
    assert isinstance(group, tutti.torch.ProcessGroupTutti)
    assert group._get_sequence_number_for_group() == 0
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    other = dist.isend(torch.ones(1), 1 - rank)
    dist.recv(torch.ones(1), 1 - rank)
    other.wait()
    assert group._get_sequence_number_for_group() == 2, "sends and recvs are not counted"
    part = dist.group.WORLD.split_group([rank], timeout=timedelta(seconds=7))
    assert part.size() == 1
    x = torch.ones(3)
    part.allreduce([x]).wait()
    assert (x == 1).all()
    turned = dist.group.WORLD.split_group([0, 1])
    turned.broadcast(x, 1).wait()
    dist.group.WORLD.set_timeout(timedelta(seconds=8))
    assert group.options._timeout == timedelta(seconds=8)
    with pytest.raises(ValueError, match="the timeout must be positive"):
        dist.group.WORLD.set_timeout(timedelta(seconds=-1))
    pending = dist.all_reduce(torch.ones(2), async_op=True)
    dist.destroy_process_group()
    pending.wait()
    with pytest.raises(dist.DistBackendError, match="all_reduce in group '0': the group was shut down"):
        group.allreduce([torch.ones(1)])


@on_ranks(2)
def test_long_timeouts():
    """Longer than nanoseconds can count in 64 bits."""
    begin()
    long = timedelta(days=365 * 300)
    assert dist.all_reduce(torch.ones(1), async_op=True).wait(long)
    options = dist.AllreduceOptions()
    options.timeout = long
    assert dist.group.WORLD.allreduce([torch.ones(1)], options).wait()
    dist.group.WORLD.set_timeout(long)
    dist.group.WORLD.monitored_barrier(long)
    dist.barrier(dist.new_group(timeout=long))
    dist.group.WORLD.split_group([0, 1], timeout=long).barrier().wait()


@on_ranks(2)
def test_profiler():
    begin()
    with torch.autograd.profiler.profile() as profile:
        dist.all_reduce(torch.ones(1000))
        dist.all_reduce(torch.ones(1000), async_op=True).wait()
        dist.broadcast(torch.ones(1), 0)
    seen = {event.key: event.count for event in profile.key_averages()}
    assert seen["tutti:all_reduce"] == 2 and seen["tutti:broadcast"] == 1, seen


@on_ranks(2)
def test_hook_is_told(rank):
    group = dist.group.WORLD
    with pytest.raises(ValueError, match="has no completion hook to wait for"):
        group._wait_for_pending_works()
    assert not group._has_hooks()
    told = []
    dist.all_reduce(torch.ones(1))  # before there is a hook
    group._register_on_completion_hook(told.append)
    assert group._has_hooks()
    with pytest.raises(ValueError, match="has a completion hook already"):
        group._register_on_completion_hook(told.append)
    group._wait_for_pending_works()
    assert told == []

    start = time.monotonic()
    other = 1 - rank
    dist.all_reduce(torch.ones(100_000))
    work = dist.broadcast(torch.ones(1), 0, async_op=True)
    dist.barrier()
    work.wait()
    tutti.torch.all_reduce_(torch.ones(2))
    dist.all_reduce(torch.eye(2).to_sparse())
    sent = dist.isend(torch.ones(1), other)
    dist.recv(torch.ones(1), other)
    sent.wait()
    for one in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(1), other),
                                       dist.P2POp(dist.irecv, torch.ones(1), other)]):
        one.wait()
    group._wait_for_pending_works()
    end = time.monotonic()
    assert sorted((info.op_type.name, info.seq) for info in told) == [
        ("ALLREDUCE", 2), ("ALLREDUCE", 5), ("BARRIER", 4), ("BROADCAST", 3), ("COALESCED", 6), ("RECV", 6), ("SEND", 6),
        ("_ALLREDUCE_SPARSE", 6)]
    for info in told:
        begun, ended = info.time_started.total_seconds(), info.time_finished.total_seconds()
        assert start <= begun <= ended <= end
        assert abs(info.active_duration.total_seconds() - (ended - begun)) < 1e-3


def body_hook_pending():
    """What has not ended is waited for, and a hook that fails is called again."""
    rank, _ = begin()
    group, told = dist.group.WORLD, []

    def hook(info):
        told.append(info.seq)
        if info.seq == 1:
            raise RuntimeError("the hook of a test")
        if info.seq == 2:
            with pytest.raises(ValueError, match="cannot wait for operations whose hooks run after it"):
                group._wait_for_pending_works()
            told.append("refused")

    group._register_on_completion_hook(hook)
    if rank == 1:
        time.sleep(0.3)
    for _ in range(3):
        dist.all_reduce(torch.ones(50_000), async_op=True)  # nobody holds its Work
    group._wait_for_pending_works()
    assert sorted(map(str, told)) == ["1", "2", "3", "refused"], told
    before = len(told)
    dist.barrier(async_op=True)
    dist.destroy_process_group()  # waits for the hook, too
    assert len(told) == before + 1


@on_ranks(2)
def test_hook_not_in_chain(rank):
    """What is chained to a future cannot wait for hooks: the thread that runs it must run them afterwards."""
    group, told, refused = dist.group.WORLD, [], []

    def chained(future):
        for wait in (group._wait_for_pending_works, dist.destroy_process_group):
            with pytest.raises(ValueError, match="cannot wait for the completion hook, which runs after it"):
                wait()
            refused.append(wait.__name__)
        return future.value()

    group._register_on_completion_hook(told.append)
    if rank == 0:
        ended = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(chained)
        dist.isend(torch.ones(1), 1).wait()  # rank 1 joins only now, so the progress thread runs the chain
        ended.wait()
        assert refused == ["_wait_for_pending_works", "destroy_process_group"]
    else:
        dist.recv(torch.ones(1), 0)
        dist.all_reduce(torch.ones(1))
    group._wait_for_pending_works()
    assert len(told) == 2
    dist.destroy_process_group()


def test_a_hook_is_waited_for():
    ended = run_each(body_hook_pending, 2)
    assert [one.status for one in ended] == [0, 0], ended
    assert all(one.text.count("the completion hook failed") == 1 and "the hook of a test" in one.text
               for one in ended), ended
