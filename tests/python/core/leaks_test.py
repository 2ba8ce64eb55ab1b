"""Small operations and groups leave memory and descriptors where they were.

A tenth of a percent of the full number always; all of it (a million operations, ten thousand groups)
with TUTTI_LONG_TESTS=1 in the environment.
"""

import os

import pytest

import ranks

LONG = os.environ.get("TUTTI_LONG_TESTS") == "1"

BODY = """
import gc

def descriptors():
    return len(os.listdir("/proc/self/fd"))

def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def watched(action, times, allowed):
    # The first third warms up whatever is kept for later.
    for i in range(times // 3):
        action(i)
    gc.collect()
    memory, files = resident(), descriptors()
    for i in range(times):
        action(i)
    gc.collect()
    grown = resident() - memory
    assert grown < allowed, f"{grown} bytes more after {times} times"
    assert descriptors() == files, f"{descriptors()} descriptors, {files} before"
    say(f"{grown} bytes in {times}")
"""


def body(text):
    import textwrap
    return textwrap.dedent(BODY) + textwrap.dedent(text)


def test_operations(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "LIMIT", 800.0 if LONG else 50.0)
    times = 1_000_000 if LONG else 3000
    ranks.run(body(f"""
        x, y = np.ones(2), np.zeros(4)
        letters = bytearray(8)
        class Odd(np.ndarray):
            pass
        def action(i):
            kind = i % 8
            if kind == 0:
                world.all_reduce(x, tutti.ReduceOp.MAX)
            elif kind == 1:
                world.all_gather(y, x, async_op=True)  # dropped
            elif kind == 2:
                world.broadcast(letters, i % 2, async_op=True).wait()
            elif kind == 3:
                world.all_gather_list([x.copy().view(Odd), x.copy()], x, async_op=True).wait()
            elif kind == 4:
                work = world.irecv(np.zeros(2), 1 - RANK)
                world.send(x, 1 - RANK)
                work.add_done_callback(lambda _: None)
                work.wait()
            elif kind == 5:
                try:
                    world.all_reduce(3)
                except TypeError:
                    pass
            elif kind == 6:
                try:
                    world.broadcast(x, 5)
                except ValueError:
                    pass
            else:
                world.all_to_all(y, y.copy(), output_splits=[2, 2], input_splits=[2, 2])
        watched(action, {times}, 4 << 20)
    """), 2, tmp_path)


def test_groups_and_worlds(tmp_path, monkeypatch):
    monkeypatch.setattr(ranks, "LIMIT", 800.0 if LONG else 50.0)
    times = 10_000 if LONG else 100
    ranks.run(body(f"""
        x = np.ones(2)
        def action(i):
            group = world.new_group([1, 0])
            group.all_reduce(x, tutti.ReduceOp.MAX)
            if i % 2:
                group.close()
            part = world.split(RANK)
            part.barrier(async_op=True)
        watched(action, {times}, 8 << 20)
    """), 2, tmp_path)


def test_stores(tmp_path):
    ranks.run(body("""
        def action(i):
            store = tutti.TCPStore("127.0.0.1", 0, 1, True)
            under = tutti.PrefixStore("p", store)
            under.set("a", b"1" * 1000)
            assert under.get("a") == b"1" * 1000
            with tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1) as alone:
                alone.barrier()
        watched(action, 30, 8 << 20)
    """), 1, tmp_path, init=False)
