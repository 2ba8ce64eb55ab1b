"""Small operations and groups leave memory and descriptors where they were.

A small part always; a million operations and ten thousand groups with TUTTI_LONG_TESTS=1 in the
environment.
"""

import os
import textwrap

import pytest

import ranks

LONG = os.environ.get("TUTTI_LONG_TESTS") == "1"

BODY = """

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def start_thread(world):
    # The progress thread has descriptors of its own, and comes when first needed: by a callback, or a long wait.
    work, told = world.irecv(np.zeros(2), 1 - RANK), threading.Event()
    work.add_done_callback(lambda _: told.set())
    world.barrier()
    world.isend(np.ones(2), 1 - RANK)
    assert told.wait(20)

def watched(action, times, allowed, meet=lambda: None):
    # The first third warms up whatever is kept for later.
    for i in range(times // 3):
        action(i)
    gc.collect()
    memory, files, begin = resident(), descriptors(), time.monotonic()
    for i in range(times):
        action(i)
    took = time.monotonic() - begin
    gc.collect()
    after, files_after = resident(), descriptors()
    meet()  # nobody ends before all have counted: rank 0 holds a connection of each
    say(f"{action.__name__}: {times} times in {took:.0f} s, {memory / 2**20:.2f} MiB before and {after / 2**20:.2f} "
        f"after, {files} descriptors before and {files_after} after")
    assert after - memory < allowed, f"{after - memory} bytes more after {times} times"
    assert files_after == files, f"{files_after} descriptors, {files} before"
"""


def run(text, size, folder, **options):
    return ranks.run(BODY + textwrap.dedent(text), size, folder, **options)


@pytest.fixture
def long_limit(monkeypatch):
    monkeypatch.setattr(ranks, "LIMIT", 800.0 if LONG else 50.0)


@pytest.mark.parametrize("size, times", [(1, 1_000_000 if LONG else 10_000), (2, 1_000_000 if LONG else 2000)])
def test_operations(tmp_path, long_limit, size, times):
    print(run(f"""
        size = world.size
        peer = (RANK + 1) % size
        if size > 1:
            start_thread(world)
        x, y = np.ones(2), np.zeros(2 * size)
        letters = bytearray(8)
        class Odd(np.ndarray):
            pass
        def operations(i):
            kind = i % 8
            if kind == 0:
                world.all_reduce(x, tutti.ReduceOp.MAX)
            elif kind == 1:
                world.all_gather(y, x, async_op=True)  # dropped
            elif kind == 2:
                world.broadcast(letters, i % size, async_op=True).wait()
            elif kind == 3:
                parts = [x.copy().view(Odd) for _ in range(size)]
                world.all_gather_list(parts, x, async_op=True).wait()
            elif kind == 4:
                work = world.irecv(np.zeros(2), (RANK - 1) % size)
                world.isend(x, peer)
                if i % 64 == 4:
                    work.add_done_callback(lambda _: None)
                work.wait()
            elif kind == 5:
                raises(TypeError, "", lambda: world.all_reduce(3))
            elif kind == 6:
                raises(ValueError, "", lambda: world.broadcast(x, 5))
            else:
                world.all_to_all(y, y.copy(), output_splits=[2] * size, input_splits=[2] * size)
        watched(operations, {times}, 4 << 20, world.barrier)
    """, size, tmp_path))


def test_groups_and_worlds(tmp_path, long_limit):
    print(run(f"""
        x = np.ones(2)
        start_thread(world)
        def groups(i):
            group = world.new_group([1, 0])
            group.all_reduce(x, tutti.ReduceOp.MAX)
            if i % 2:
                group.close()
            part = world.split(RANK)
            part.barrier(async_op=True)
        watched(groups, {10_000 if LONG else 100}, 8 << 20, world.barrier)
    """, 2, tmp_path))


def test_distributed(tmp_path, long_limit):
    print(run(f"""
        import tutti.distributed as dist
        dist.init_process_group("gloo")
        x = np.ones(2, np.float32)
        start_thread(dist.group.WORLD._low)
        def all_reduces(i):
            if i % 8:
                dist.all_reduce(x, dist.ReduceOp.MAX)
            elif i % 16:
                dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True).wait()
            else:
                dist.all_reduce(x, dist.ReduceOp.MAX, async_op=True).get_future().then(lambda done: done.value()).wait()
        watched(all_reduces, {1_000_000 if LONG else 4000}, 4 << 20, dist.barrier)
        def groups(i):
            group = dist.new_group([0, 1])
            dist.all_reduce(x, dist.ReduceOp.MAX, group)
            dist.monitored_barrier(group)
            dist.destroy_process_group(group)
        watched(groups, {10_000 if LONG else 100}, 8 << 20, dist.barrier)
    """, 2, tmp_path, init=False))


def test_stores(tmp_path):
    run("""
        def stores(i):
            store = tutti.TCPStore("127.0.0.1", 0, 1, True)
            under = tutti.PrefixStore("p", store)
            under.set("a", b"1" * 1000)
            assert under.get("a") == b"1" * 1000
            with tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1) as alone:
                alone.barrier()
        watched(stores, 30, 8 << 20)
    """, 1, tmp_path, init=False)
