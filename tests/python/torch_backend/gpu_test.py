"""Tensors of GPUs, whose memory is the host's (gpus.py): values, the streams that tutti is given, the order of streams."""

import functools
import os
import signal
import subprocess
import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import forked
import gpu_program
import gpus
import stacks
import tutti.torch  # noqa: F401
from forked import check_killed
from ranks import one_by_rotation

# Ranks, TORCH_DISTRIBUTED_DEBUG and TUTTI_CUDA_IPC.
CONFIGURATIONS = [(2, "OFF", "off"), *one_by_rotation([(2, "DETAIL", "off"), (2, "OFF", "on"), (1, "OFF", "off"), (3, "OFF", "off")])]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return gpus.build(tmp_path_factory.mktemp("gpus"))


def begin(backend="tutti", **options):
    gpus.load()
    return forked.begin(backend, **options)


on_ranks = functools.partial(forked.on_ranks, given="environment", make=begin)


@pytest.mark.parametrize(("size", "debug", "direct"), CONFIGURATIONS)
def test_program_for_gpus(size, debug, direct, environment):
    """Every operation, and DistributedDataParallel. The library is there first: torch asks once whether there are GPUs."""
    environment = {**os.environ, **environment, "LD_PRELOAD": environment["TUTTI_TEST_GPU_TENSORS"],
                   "TORCH_DISTRIBUTED_DEBUG": debug, "TUTTI_CUDA_IPC": direct}
    done = stacks.python(gpu_program.__file__, size, limit=240, env=environment, stderr=subprocess.STDOUT)
    assert (done.stdout, done.returncode) == ("ok operations\nok groups\nok gradients\nok training\n", 0), done.stdout


def test_without_gpus_the_program_says_so(capsys):
    assert gpu_program.main() == 0
    assert capsys.readouterr().out == f"not run: torch {torch.__version__} finds no GPU\n"


@on_ranks(2)
def test_calls_are_on_the_current_stream_and_wait_orders_the_one_of_its_caller():
    begin()
    x = gpus.on_gpu(torch.ones(4))
    y = gpus.on_gpu(torch.ones(4), 1)
    for stream, gpu, tensor in [(7, 0, x), (0, 0, x), (8, 1, y)]:
        gpus.set_stream(stream, gpu)
        dist.all_reduce(tensor)
        assert gpus.stream_of_the_driver() == gpus.number(stream, gpu)
        tutti.torch.all_reduce_(tensor)
        assert gpus.stream_of_the_driver() == gpus.number(stream, gpu)
    # The stream of a call is the caller's, on each thread.
    gpus.set_stream(9)
    work = dist.all_reduce(x, async_op=True)
    assert gpus.stream_of_the_driver() == gpus.number(9)
    gpus.take_log()
    work.wait()  # on the stream of the call there is nothing to wait for
    assert gpus.take_log() == ["record event 1 on 1009"]
    gpus.set_stream(5)
    work.wait()  # each call orders the stream that is current then
    assert gpus.take_log() == ["wait for event 1 on 1005"]

    def on_another_thread():
        gpus.set_stream(6)
        work.wait()
    thread = threading.Thread(target=on_another_thread)
    thread.start()
    thread.join(20)
    assert gpus.take_log() == ["wait for event 1 on 1006"]
    assert work.is_completed()  # and asks the GPU
    assert gpus.take_log() == ["query event 1"]
    work.synchronize()  # the host waits
    assert gpus.take_log() == ["synchronize event 1"]
    # Where the host has waited, no stream needs to.
    for wait in (lambda work: work.synchronize(), lambda work: work.wait(timedelta(seconds=20))):
        work = dist.all_reduce(x, async_op=True)
        gpus.take_log()
        wait(work)
        gpus.set_stream(4)
        work.wait()
        gpus.set_stream(5)
        assert gpus.take_log() == []
    dist.destroy_process_group()


@on_ranks(2)
def test_futures_are_ordered_behind_the_results():
    begin()
    gpus.set_stream(3)
    x = gpus.on_gpu(torch.ones(4))
    seen = []

    def chained(future):
        seen.append((gpus.on_host(future.value()[0]).tolist(), threading.get_ident() != threading.main_thread().ident))
        return future.value()[0]

    future = dist.all_reduce(x, async_op=True).get_future()
    last = future.then(chained)
    gpus.take_log()
    assert gpus.on_host(last.wait()).tolist() == [2.0] * 4
    assert seen[0][0] == [2.0] * 4
    # The reader's stream is ordered behind what the chained function was given.
    assert [line for line in gpus.take_log() if line.endswith("on 1003")][0].startswith("wait for event")
    # A Work that was waited for: its future is ordered behind the mark of that wait.
    work = dist.all_reduce(x, async_op=True)
    gpus.take_log()
    work.wait()
    work.get_future().wait()
    log = gpus.take_log()
    assert log[0] == "record event 1 on 1003" and log[1] == "synchronize event 1", log
    assert log[2].startswith("record event 2 on 11") and log[3] == "wait for event 2 on 1003", log
    # Nobody holds the Work or the tensor: they live until the operation is over.
    y = gpus.on_gpu(torch.full((1 << 16,), 2.0))
    host = gpus.on_host(y)
    dist.all_reduce(y, async_op=True)
    del y
    dist.barrier()
    dist.all_reduce(gpus.on_gpu(torch.ones(1)))
    assert host.eq(4.0).all()
    dist.destroy_process_group()


@on_ranks(2)
def test_future_tells_that_the_gpu_was_lost():
    begin()
    x = gpus.on_gpu(torch.ones(4))
    torch.ops.host_gpus.lose_gpus()  # the future asks torch for a stream
    with pytest.raises(RuntimeError, match="the GPU was lost"):
        dist.all_reduce(x, async_op=True).get_future().wait()
    dist.all_reduce(x)
    dist.destroy_process_group()


@on_ranks(2)
def test_coalesced_calls_have_a_stream_each():
    begin()
    gpus.set_stream(2)
    w, x, y, z = gpus.on_gpu(torch.ones(4)), gpus.on_gpu(torch.ones(2)), gpus.on_gpu(torch.ones(3), 1), torch.ones(1)
    gpus.set_stream(6, 1)
    group = dist.group.WORLD
    group._start_coalescing(torch.device("cuda"))
    for tensor in (w, y, x, z):
        dist.all_reduce(tensor, async_op=True)
    work = group._end_coalescing(torch.device("cuda"))
    gpus.take_log()
    work.wait()
    assert gpus.take_log() == ["record event 1 on 1002", "record event 2 on 2006"]
    assert all(one.eq(2.0).all() for one in (gpus.on_host(w), gpus.on_host(x), gpus.on_host(y), z))
    dist.destroy_process_group()


@on_ranks(3)
def test_groups():
    rank, _ = begin("cpu:tutti,cuda:tutti")
    world = dist.group.WORLD
    backends = [world._get_backend(torch.device(one)) for one in ("cpu", "cuda")]
    assert backends[0] is backends[1]  # one group for both
    assert backends[0].supports_splitting and backends[0].supports_coalescing
    gpus.set_stream(3)
    gpus.take_log()
    dist.barrier()  # of the CPUs
    assert gpus.take_log() == []
    gpus.set_stream(4, 1)
    options = dist.BarrierOptions()
    options.device_ids = [1]
    world.barrier(options).wait()
    assert gpus.take_log() == ["synchronize stream 2004"]
    world.monitored_barrier(timedelta(seconds=20))
    options = tutti.torch.Options(timedelta(seconds=20))
    piece = world.split_group([0, 1] if rank < 2 else [2], timedelta(seconds=20), options, "piece", "a piece")
    x = gpus.on_gpu(torch.ones(2))
    piece.allreduce([x]).wait()
    assert gpus.on_host(x).tolist() == [2.0 if rank < 2 else 1.0] * 2
    dist.destroy_process_group()


@on_ranks(2, TUTTI_TEST_GPUS="1")
def test_wrong_calls_are_refused_before_anything_is_sent():
    begin()
    here, there, other = torch.ones(2), gpus.on_gpu(torch.ones(2)), gpus.on_gpu(torch.ones(2), 1)
    cases = [
        (lambda: dist.all_gather([here, there], there), "there are tensors on cuda:0 and on cpu"),
        (lambda: dist.all_gather_into_tensor(gpus.on_gpu(torch.ones(4), 1), there), "there are tensors on cuda:0 and on cuda:1"),
        (lambda: dist.group.WORLD.allreduce_coalesced([there, other]), "those of a call must be on one device"),
        (lambda: dist.broadcast(gpus.on_gpu(torch.ones(2, dtype=torch.complex64).conj().imag), 0), "conjugated or negated view"),
        (lambda: dist.all_reduce(other), "is in the memory of cuda:1, which cannot be used"),  # its driver knows one
        (lambda: tutti.torch.all_reduce_add_rms_norm_(there, there, there), "on the CPU"),
    ]
    for call, text in cases:
        with pytest.raises((ValueError, RuntimeError), match=text):
            call()
    dist.all_reduce(there)  # nothing was sent, and the group goes on
    dist.all_reduce(here)
    assert gpus.on_host(there).tolist() == here.tolist() == [2.0, 2.0]
    # A rank with a tensor of a GPU and one with a tensor of the CPU agree.
    mixed = there if dist.get_rank() == 0 else here
    dist.all_reduce(mixed)
    assert (gpus.on_host(mixed) if mixed.is_cuda else mixed).tolist() == [4.0, 4.0]
    dist.destroy_process_group()


@on_ranks(2, TUTTI_CUDA_IPC="on")
def test_a_group_from_gpu_to_gpu_takes_one_gpu_of_each_rank(rank):
    there = gpus.on_gpu(torch.ones(2))
    for other, error, text in [(torch.ones(2), dist.DistBackendError, "on GPUs"),
                               (gpus.on_gpu(torch.ones(2), 1), ValueError, "its tensors are on cuda:1")]:
        group = dist.new_group([0, 1])
        dist.all_reduce(gpus.on_gpu(torch.ones(2)), group=group)
        dist.barrier()  # the other rank has its result, too
        with pytest.raises(error, match=text):
            dist.all_reduce(other if rank == 0 else there, group=group)
        assert gpus.on_host(there).tolist() == [1.0, 1.0]
        with pytest.raises(error, match=text):  # the group is broken
            dist.all_reduce(there, group=group)
    dist.destroy_process_group()


@on_ranks(2)
def test_timeouts(rank):
    x = gpus.on_gpu(torch.ones(2))
    if rank == 1:
        work = dist.irecv(x, 0)
        with pytest.raises(dist.DistBackendError, match="not done within 50 ms"):
            work.wait(timedelta(milliseconds=50))
        dist.send(x, 0)
        work.wait()
        assert gpus.on_host(x).tolist() == [3.0, 3.0]
    else:
        dist.recv(gpus.on_gpu(torch.ones(2)), 1)
        dist.send(gpus.on_gpu(torch.full((2,), 3.0)), 1)
    dist.barrier()
    if rank == 0:
        dist.group.WORLD.set_timeout(timedelta(milliseconds=300))
        work = dist.all_reduce(x, async_op=True)
        future = work.get_future()
        for wait in (work.wait, future.wait, work.synchronize):
            with pytest.raises(dist.DistBackendError, match="a timeout has passed"):
                wait()
        assert work.is_completed() and not work.is_success()
    else:
        with pytest.raises((dist.DistBackendError, dist.DistNetworkError)):
            dist.recv(x, 0)


@on_ranks(2)
def test_abort(rank):
    x = gpus.on_gpu(torch.ones(2))
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        future = work.get_future()
        for wait in (work.wait, future.wait):
            with pytest.raises(dist.DistBackendError, match="abort"):
                wait()
        assert gpus.on_host(x).tolist() == [1.0, 1.0]  # untouched
    else:
        dist.group.WORLD.abort()
    with pytest.raises(dist.DistBackendError, match="abort"):
        dist.all_reduce(x)


def body_killed():
    rank, _ = begin()
    x = gpus.on_gpu(torch.ones(1 << 10))
    dist.all_reduce(x)
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    work = dist.all_reduce(x, async_op=True)
    future = work.get_future()
    for wait in (work.wait, work.synchronize, future.wait):
        with pytest.raises(dist.DistNetworkError, match="rank 2"):
            wait()
    with pytest.raises(dist.DistNetworkError, match="rank 2"):
        dist.all_reduce(x)


def test_killed_rank_is_named(environment):
    check_killed(body_killed, 3, 2, **environment)
