"""A timeout is a number of seconds or a timedelta, whatever takes it."""

import inspect
import os
import time
from datetime import timedelta

import numpy as np
import pytest
import tutti
import tutti.distributed as dist
from tutti import _tutti
from tutti.distributed.exchange import OBJECT_TAG
from tutti.distributed.pickling import Packed
from tutti.multiprocessing import ProcessRaisedException, SpawnContext, run

SECONDS = 30  # of calls that end at once
WRONG = ["3", True, [3], object()]
NO_LIMIT = [float("inf"), timedelta.max]
TOO_LONG = [1e10, 10**400, timedelta(days=100_000), timedelta.max - timedelta(days=1), float("-inf"), float("nan")]


def one():
    return np.ones(1)


def ready():
    """A Work that is done."""
    work = dist.all_reduce(one(), async_op=True)
    work.wait()
    return work


def received(call, *arguments, **options):
    """A call that takes what this rank has sent to itself."""
    sent = dist.isend(one(), 0)
    call(*arguments, **options)
    sent.wait()


def received_objects(timeout):
    """A list of objects that this rank has sent to itself: by its parts, since send_object_list sends to others only."""
    packed = Packed(['x' * 1000])
    works = [dist.group.WORLD._low.isend(part, 0, tag=OBJECT_TAG) for part in (packed.head, packed.body)]
    dist.recv_object_list([None], 0, timeout=timeout)
    for work in works:
        work.wait()


def group_of_timeout(group, timeout):
    """It keeps the timeout that it was given."""
    if timeout in NO_LIMIT:
        assert group.timeout > timedelta(days=36500)
        return
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    assert group.timeout == timedelta(seconds=seconds)


# Everything that takes a timeout, on a world of one rank. `t` is the timeout.
CALLS = {
    "all_gather": lambda t: dist.all_gather([one()], one(), timeout=t),
    "all_gather_coalesced": lambda t: dist.all_gather_coalesced([[one()]], [one()], timeout=t),
    "all_gather_into_tensor": lambda t: dist.all_gather_into_tensor(one(), one(), timeout=t),
    "all_gather_into_tensor_coalesced": lambda t: dist.all_gather_into_tensor_coalesced([one()], [one()], timeout=t),
    "all_gather_multigpu": lambda t: dist.all_gather_multigpu([[one()]], [one()], timeout=t),
    "all_to_all_object": lambda t: dist.all_to_all_object([None], [1], timeout=t),
    "all_gather_object": lambda t: dist.all_gather_object([None], 1, timeout=t),
    "all_gather_single": lambda t: dist.all_gather_single(one(), one(), timeout=t),
    "all_gather_v": lambda t: dist.all_gather_v(one(), timeout=t),
    "all_reduce": lambda t: dist.all_reduce(one(), timeout=t),
    "all_reduce_coalesced": lambda t: dist.all_reduce_coalesced([one()], timeout=t),
    "all_reduce_multigpu": lambda t: dist.all_reduce_multigpu([one()], timeout=t),
    "all_to_all": lambda t: dist.all_to_all([one()], [one()], timeout=t),
    "all_to_all_single": lambda t: dist.all_to_all_single(one(), one(), timeout=t),
    "all_to_all_v": lambda t: dist.all_to_all_v(one(), [1], timeout=t),
    "barrier": lambda t: dist.barrier(timeout=t),
    "batch_isend_irecv": lambda t: [work.wait() for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, one(), 0), dist.P2POp(dist.irecv, one(), 0)], timeout=t)],
    "broadcast": lambda t: dist.broadcast(one(), 0, timeout=t),
    "broadcast_multigpu": lambda t: dist.broadcast_multigpu([one()], 0, timeout=t),
    "broadcast_object_list": lambda t: dist.broadcast_object_list([1], 0, timeout=t),
    "gather": lambda t: dist.gather(one(), [one()], timeout=t),
    "gather_into_tensor": lambda t: dist.gather_into_tensor(one(), one(), timeout=t),
    "gather_object": lambda t: dist.gather_object(1, [None], timeout=t),
    "gather_single": lambda t: dist.gather_single(one(), one(), timeout=t),
    "gather_v": lambda t: dist.gather_v(one(), timeout=t),
    "CartGroup.neighbor_all_to_all": lambda t: [work.wait() for work in dist.cart([1], [True]).neighbor_all_to_all(
        [one(), one()], [one(), one()], timeout=t)],
    "iprobe": lambda t: received(lambda: dist.iprobe(0, timeout=t).recv(one())),
    "irecv": lambda t: received(lambda: dist.irecv(one(), 0, timeout=t).wait()),
    "isend": lambda t: [work.wait() for work in (dist.irecv(one(), 0), dist.isend(one(), 0, timeout=t))],
    "monitored_barrier": lambda t: dist.monitored_barrier(timeout=t),
    "new_group": lambda t: group_of_timeout(dist.new_group([0], timeout=t), t),
    "new_subgroups": lambda t: group_of_timeout(dist.new_subgroups(1, timeout=t)[0], t),
    "new_subgroups_by_enumeration": lambda t: group_of_timeout(
        dist.new_subgroups_by_enumeration([[0]], timeout=t)[0], t),
    "probe": lambda t: received(lambda: dist.probe(0, timeout=t).recv(one())),
    "Message.recv": lambda t: received(lambda: dist.probe(0).recv(one(), timeout=t)),
    "recv": lambda t: received(dist.recv, one(), 0, timeout=t),
    "recv_object_list": received_objects,
    "reduce": lambda t: dist.reduce(one(), 0, timeout=t),
    "reduce_multigpu": lambda t: dist.reduce_multigpu([one()], 0, timeout=t),
    "reduce_scatter": lambda t: dist.reduce_scatter(one(), [one()], timeout=t),
    "reduce_scatter_single": lambda t: dist.reduce_scatter_single(one(), one(), timeout=t),
    "reduce_scatter_tensor": lambda t: dist.reduce_scatter_tensor(one(), one(), timeout=t),
    "reduce_scatter_tensor_coalesced": lambda t: dist.reduce_scatter_tensor_coalesced([one()], [one()], timeout=t),
    "scan": lambda t: dist.scan(one(), timeout=t),
    "scatter": lambda t: dist.scatter(one(), [one()], timeout=t),
    "scatter_object_list": lambda t: dist.scatter_object_list([None], [1], timeout=t),
    "scatter_single": lambda t: dist.scatter_single(one(), one(), timeout=t),
    "send": lambda t: dist.send(one(), 1, timeout=t),
    "send_object_list": lambda t: dist.send_object_list([1], 1, timeout=t),
    "sendrecv": lambda t: dist.sendrecv(one(), 0, one(), 0, timeout=t),
    "split_group": lambda t: group_of_timeout(dist.split_group(None, [[0]], timeout=t), t),
    "ProcessGroup.all_to_all_single": lambda t: dist.group.WORLD.all_to_all_single(one(), one(), timeout=t).wait(),
    "ProcessGroup.allgather": lambda t: dist.group.WORLD.allgather([[one()]], [one()], timeout=t).wait(),
    "ProcessGroup.allreduce": lambda t: dist.group.WORLD.allreduce(one(), timeout=t).wait(),
    "ProcessGroup.alltoall": lambda t: dist.group.WORLD.alltoall([one()], [one()], timeout=t).wait(),
    "ProcessGroup.alltoall_base": lambda t: dist.group.WORLD.alltoall_base(one(), one(), timeout=t).wait(),
    "ProcessGroup.barrier": lambda t: dist.group.WORLD.barrier(timeout=t).wait(),
    "ProcessGroup.broadcast": lambda t: dist.group.WORLD.broadcast(one(), timeout=t, root=0).wait(),
    "ProcessGroup.gather": lambda t: dist.group.WORLD.gather([[one()]], [one()], timeout=t).wait(),
    "ProcessGroup.merge_remote_group": lambda t: group_of_timeout(
        dist.group.WORLD.merge_remote_group(dist.HashStore(), 1, timeout=t), t),
    "ProcessGroup.monitored_barrier": lambda t: dist.group.WORLD.monitored_barrier(timeout=t),
    "ProcessGroup.reduce": lambda t: dist.group.WORLD.reduce(one(), timeout=t, root=0).wait(),
    "ProcessGroup.reduce_scatter": lambda t: dist.group.WORLD.reduce_scatter([one()], [[one()]], timeout=t).wait(),
    "ProcessGroup.scatter": lambda t: dist.group.WORLD.scatter([one()], [[one()]], timeout=t).wait(),
    "ProcessGroup.set_timeout": lambda t: (dist.group.WORLD.set_timeout(t), group_of_timeout(dist.group.WORLD, t)),
    "ProcessGroup.split_group": lambda t: group_of_timeout(dist.group.WORLD.split_group([0], timeout=t), t),
    "Work.wait": lambda t: ready().wait(t),
    "wait_any": lambda t: dist.wait_any([dist.barrier(async_op=True)], t),
    "wait_some": lambda t: dist.wait_some([dist.barrier(async_op=True)], t),
    "HashStore.barrier": lambda t: dist.HashStore().barrier("key", 1, t),
    "HashStore.set": lambda t: dist.HashStore().set("key", "value", timeout=t),
    "HashStore.set_timeout": lambda t: dist.HashStore().set_timeout(t),
    "PrefixStore.barrier": lambda t: dist.PrefixStore("a", dist.HashStore()).barrier("key", 1, t),
    "PrefixStore.set_timeout": lambda t: dist.PrefixStore("a", dist.HashStore()).set_timeout(t),
    "TCPStore": lambda t: dist.TCPStore("127.0.0.1", 0, 1, True, t, secret=b"0123456789abcdef0123456789abcdef"),
    "TCPStore.linger": lambda t: dist.TCPStore("127.0.0.1", 0, 1, True, linger=t, secret=b"0123456789abcdef" * 2),
    "low.all_reduce": lambda t: dist.group.WORLD._low.all_reduce(one(), timeout=t),
    "low.new_group": lambda t: group_of_timeout(dist.group.WORLD._low.new_group([0], timeout=t), t),
    "low.split": lambda t: group_of_timeout(dist.group.WORLD._low.split(0, timeout=t), t),
    "low.Work.wait": lambda t: ready()._low.wait(t),
    "Config.timeout": lambda t: setattr(tutti.Config(), "timeout", t),
    "SpawnContext.join": lambda t: SpawnContext([], []).join(t, t),
}
# Python waits itself, and may be told any time.
ALSO_LONG = {"SpawnContext.join"}
# With a world, a rank or a process of their own: below.
ALONE = {"init_process_group"}


def takers():
    """All public functions and methods of tutti.distributed that have a parameter `timeout`."""
    found = set()
    for name in dist.__all__:
        thing = getattr(dist, name)
        if not inspect.isclass(thing):
            if callable(thing) and "timeout" in inspect.signature(thing).parameters:
                found.add(name)
            continue
        for member, method in vars(thing).items() if name.endswith("Store") else inspect.getmembers(thing):
            if inspect.isfunction(method) and "timeout" in inspect.signature(method).parameters:
                found.add(name if member == "__init__" else f"{name}.{member}")
    return found


def refused(name, call, wrong, kind):
    """It raises that error."""
    try:
        call(wrong)
    except kind as problem:
        assert "timeout" in str(problem), (name, wrong)
    else:
        pytest.fail(f"{name} takes {wrong!r}")


def test_the_table_is_complete():
    shared = {f"{store}.barrier" for store in ("FileStore", "HashStore", "PrefixStore", "TCPStore")}
    assert takers() - shared <= CALLS.keys() | ALONE


@pytest.mark.ranks(1)
@pytest.mark.filterwarnings("ignore:Please specify timeout arg as a timedelta")
def test_seconds_and_timedeltas():
    for name, call in CALLS.items():
        if name in ("send", "send_object_list"):  # nobody is there to take it
            continue
        for timeout in (SECONDS, float(SECONDS), timedelta(seconds=SECONDS), *NO_LIMIT):
            call(timeout)


@pytest.mark.ranks(2)
def test_two_ranks_send_with_seconds_and_timedeltas():
    for timeout in (SECONDS, float(SECONDS), timedelta(seconds=SECONDS), *NO_LIMIT):
        if dist.get_rank() == 0:
            CALLS["send"](timeout)
            CALLS["send_object_list"](timeout)
        else:
            dist.recv(one(), 0, timeout=timeout)
            dist.recv_object_list([None], 0, timeout=timeout)


@pytest.mark.ranks(1)
@pytest.mark.filterwarnings("ignore:Please specify timeout arg as a timedelta")
def test_anything_else_is_refused():
    for name, call in CALLS.items():
        if name in ("send", "send_object_list"):
            continue
        for wrong in WRONG:
            refused(name, call, wrong, TypeError)
        for wrong in TOO_LONG if name not in ALSO_LONG else [float("nan")]:
            refused(name, call, wrong, ValueError)


@pytest.mark.parametrize("timeout", [SECONDS, float(SECONDS), timedelta(seconds=SECONDS)])
def test_worlds_and_jobs(timeout):
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1, timeout=timeout)
    try:
        assert dist.group.WORLD.timeout == timedelta(seconds=SECONDS)
    finally:
        dist.destroy_process_group()
    low = tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1, timeout=timeout)
    assert low.timeout == timedelta(seconds=SECONDS)
    low.close()
    assert run(int, 1, timeout=timeout, init=False) == [0]


@pytest.mark.parametrize("timeout", NO_LIMIT)
def test_worlds_and_jobs_without_limit(timeout, monkeypatch):
    dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1, timeout=timeout)
    try:
        group_of_timeout(dist.group.WORLD, timeout)
        # What a group says can be given to another one.
        dist.new_group([0], timeout=dist.group.WORLD.timeout).barrier().wait()
    finally:
        dist.destroy_process_group()
    assert run(int, 1, timeout=timeout, grace_period=timeout, init=False) == [0]
    monkeypatch.setenv("TUTTI_TIMEOUT", "inf")
    monkeypatch.setenv("TUTTI_STALL_WARNING", "inf")
    low = tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1)
    low.all_reduce(one())
    group_of_timeout(low, timeout)
    low.close()


def test_grace_without_limit_lets_the_others_end(tmp_path):
    done = tmp_path / "done"
    with pytest.raises(ProcessRaisedException, match="ZeroDivisionError"):
        run(_fails_or_outlives, 2, (tmp_path,), init=False, grace_period=float("inf"))
    assert done.exists()


def _fails_or_outlives(folder):
    """Rank 1 ends after `run` has seen the end of rank 0."""
    pid = folder / "pid"
    if os.environ["RANK"] == "0":
        (folder / "new").write_text(str(os.getpid()))
        (folder / "new").rename(pid)
        return 1 / 0
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and not (pid.exists() and not os.path.exists(f"/proc/{pid.read_text()}")):
        time.sleep(0.01)
    (folder / "done").touch()
    return None


@pytest.mark.parametrize("wrong", WRONG)
def test_worlds_and_jobs_refuse_anything_else(wrong):
    for init in (dist.init_process_group, _tutti.init_process_group):
        with pytest.raises(TypeError, match="timeout"):
            init(store=dist.HashStore(), rank=0, world_size=1, timeout=wrong)
    with pytest.raises(TypeError, match="timeout"):
        run(int, 1, timeout=wrong)
    assert not dist.is_initialized()
