"""Reduce ops of the caller's, in tutti.distributed: functions of a Crew. Each asserts on its rank."""

import array
import asyncio
import ctypes
import gc
import itertools
import sys
import threading
import time
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tutti.distributed as dist
from tutti.errors import DisagreementError

from dist_crew import adopt, raises  # noqa: F401

LIMIT = 60  # seconds: nothing takes so long


def until(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.001)


class Noted:
    """An op that notes the threads that run it."""

    def __init__(self, executor=None):
        self.threads = set()
        self.op = dist.UserOp("noted", self, executor=executor)

    def __call__(self, a, b):
        self.threads.add(threading.current_thread())
        return digits(a, b)


def digits(a, b):
    """Neither commutative nor associative."""
    return a * 10 + b


def folded(n, first=0):
    """Of numbers that ascend from this one."""
    value = first
    for r in range(1, n):
        value = value * 10 + first + r
    return value


def forms(r, n):
    """Those that the case `values` does not have."""
    op = dist.UserOp("digits", digits)
    wide = np.full((4, 6), r, np.int64)
    dist.all_reduce(wide[:, ::2], op=op)
    assert (wide[:, ::2] == folded(n)).all() and (wide[:, 1::2] == r).all()
    dist.reduce_scatter_tensor(x := np.zeros(2, np.int64), np.repeat(np.arange(n), 2) + r, op)
    assert (x == folded(n, r)).all()
    dist.all_reduce(x := np.array([r == n - 1, True]), dist.UserOp("later", lambda a, b: b), timeout=20)
    assert x.all()


def in_blocks(r, n):
    def product(a, b):
        a.reshape(-1, 2, 2)[:] = a.reshape(-1, 2, 2) @ b.reshape(-1, 2, 2)
        return a

    op = dist.UserOp("product", product, block=4)
    one = np.array([[1, r], [1, 1]], np.int64)
    expected = np.array([[1, 0], [1, 1]])
    for each in range(1, n):
        expected = expected @ np.array([[1, each], [1, 1]])
    for count in (1, 5003):
        dist.all_reduce(x := np.tile(one, (count, 1, 1)), op)
        assert (x == expected).all()
    raises(ValueError, "4 elements at a time", lambda: dist.all_reduce(np.zeros(6), op))
    dist.barrier()


def of_any_kind(r, n):
    seen = []

    def last(a, b):
        seen.append(type(b))
        return b

    op = dist.UserOp("last", last)
    dist.all_reduce(x := bytearray([r, r]), op)
    assert x == bytearray([n - 1] * 2)
    dist.all_reduce(x := array.array("d", [r] * 3), op)
    assert list(x) == [n - 1] * 3 and set(seen) <= {memoryview}
    dist.all_reduce(x := (ctypes.c_double * 3)(r, r, r), op)
    assert list(x) == [n - 1] * 3
    grid = dist.UserOp("grid", lambda a, b: memoryview(b.cast("B")).cast("d", [2, 2]))
    dist.all_reduce(x := array.array("d", [r] * 4), grid)
    assert list(x) == [n - 1] * 4
    halves = memoryview(np.ones(3, np.float16))
    raises(TypeError, "give an array of NumPy", lambda: dist.all_reduce(halves, op))
    for dtype in (bool, np.int8, np.uint16, np.float16, np.float32, np.complex64, np.complex128):
        dist.all_reduce(x := np.full(3, r == n - 1, dtype), op)
        assert (x == 1).all()


def of_torch(r, n):
    import torch
    op = dist.UserOp("digits", lambda a, b: torch.add(b, a, alpha=10))
    for dtype in (torch.int64, torch.float32, torch.bfloat16, torch.complex64):
        for count in (3, 20_001):
            dist.all_reduce(x := torch.full((count,), min(r, 1), dtype=dtype), op)
            expected = torch.full((count,), 0, dtype=dtype)
            for each in range(1, n):
                expected = torch.add(torch.full((count,), 1, dtype=dtype), expected, alpha=10)
            assert torch.equal(x, expected)
    dist.all_reduce(x := torch.full((4, 2), r)[:, 0], dist.UserOp("last", lambda a, b: b))
    assert (x == n - 1).all()
    dist.all_reduce(x := torch.full((3,), complex(r, 1), dtype=torch.complex32), dist.UserOp("last", lambda a, b: b))
    assert (torch.view_as_real(x) == torch.tensor([n - 1, 1.0])).all()
    work = dist.all_reduce(x := torch.full((20_001,), r, dtype=torch.int64), op, async_op=True)
    work.wait()
    assert (x == folded(n)).all()
    work = dist.all_reduce(x := torch.full((4, 2), r)[:, 0], op, async_op=True)
    future = work.get_future()
    assert future.then(lambda f: int(f.value()[0][0])).wait() == folded(n) and (x == folded(n)).all()
    halves = torch.full((3,), complex(r, 1), dtype=torch.complex32)
    dist.all_reduce(halves, dist.UserOp("last", lambda a, b: b), async_op=True).wait()
    assert (torch.view_as_real(halves) == torch.tensor([n - 1, 1.0])).all()


def on_threads(r, n):
    threads = set()

    def noted(a, b):
        threads.add(threading.current_thread())
        return a + b

    dist.all_reduce(x := np.ones(4), dist.UserOp("noted", noted))
    assert (x == n).all() and threads <= {threading.current_thread()}
    threads.clear()
    with ThreadPoolExecutor(1) as pool:
        dist.all_reduce(x := np.ones(4), dist.UserOp("noted", noted, executor=pool))
        assert (x == n).all() and threading.current_thread() not in threads and len(threads) == (n > 1)
    # The function may communicate, and others may run meanwhile.
    other = dist.new_group()

    def talking(a, b):
        dist.barrier(other)
        return a + b

    dist.all_reduce(x := np.ones(4), dist.UserOp("talking", talking))
    assert (x == n).all()


def wrong(r, n):
    op = dist.UserOp("digits", digits)
    raises(ValueError, "combines in all_reduce", lambda: dist.scan(np.ones(1), op))
    raises(ValueError, "combines in all_reduce", lambda: dist.all_reduce_coalesced([np.ones(1)], op))
    raises(ValueError, "combines in all_reduce", lambda: dist.group.WORLD.allreduce([np.ones(1)], op=op))
    raises(TypeError, "", lambda: dist.all_reduce([1], op))
    raises(TypeError, "cannot be called", lambda: dist.UserOp("none", None))
    raises(TypeError, "an executor", lambda: dist.UserOp("none", digits, executor=3))
    assert dist.UserOp("none", digits, block=np.int64(4)).block == 4
    for name in ("", None, "\udc80"):
        raises(ValueError, "the name", lambda: dist.UserOp(name, digits))
    for block in (0, -1, True, 1.5):
        raises(ValueError, "the block", lambda: dist.UserOp("a", digits, block=block))
    if n > 1:
        for given, told in ((None, "NoneType"), (np.ones(4), "4 elements"), (np.ones(3, int), "int64"), ([1.0] * 3, "list")):
            before = (x := np.full(3, 1.0 + r)).copy()
            raises(TypeError, told, lambda: dist.all_reduce(x, dist.UserOp("wrong", lambda a, b: given)))
            assert (x == before).all()

        def failing(a, b):
            raise KeyError("no such thing")

        raises(KeyError, "no such thing", lambda: dist.all_reduce(np.ones(3), dist.UserOp("failing", failing)))
    dist.all_reduce(x := np.ones(3), op)  # the group is as it was
    if n > 2:
        def failing_on_1(a, b):
            if r == 1:
                raise KeyError("no such thing")
            return a

        call = lambda: dist.all_reduce(np.ones(20_000), dist.UserOp("failing", failing_on_1))  # noqa: E731
        if r == 1:
            raises(KeyError, "no such thing", call)
        else:
            call()
        dist.barrier()
    # The case that breaks a group is last, in one of its own.
    group = dist.new_group()
    if n > 1:
        first, second = dist.UserOp("first", digits), dist.UserOp("second", digits)
        problem = raises(DisagreementError, "all_reduce with the op 'first'",
                         lambda: dist.all_reduce(np.ones(3), second if r == 1 else first, group))
        assert "all_reduce with the op 'second'" in str(problem)


def values(r, n):
    op = dist.UserOp("digits", digits)
    for count, later in itertools.product((0, 1, 3, 20_001), (False, True)):
        arrays = [np.full(count, r + i, np.int64) for i in range(12)]
        wide = np.full((count, 2), r, np.int64)
        at_root, part, single = np.full(count, r), np.zeros(count, np.int64), np.zeros(count, np.int64)
        works = [dist.all_reduce(x, op, async_op=later) for x in arrays]
        works += [dist.all_reduce(wide[:, 0], op, async_op=later), dist.reduce(at_root, n - 1, op, async_op=later),
                  dist.reduce_scatter(part, [np.full(count, r + i) for i in range(n)], op, async_op=later),
                  dist.reduce_scatter_single(single, np.repeat(np.arange(n), count) + r, op, async_op=later)]
        assert all(isinstance(work, dist.Work) if later else work is None for work in works)
        for work in (works if r % 2 else reversed(works)) if later else ():  # no rank needs another's function
            assert work.wait() is True and work.is_completed() and work.is_success() and work.exception() is None
        for i, x in enumerate(arrays):
            assert (x == folded(n, i)).all()
        assert (wide[:, 0] == folded(n)).all() and (wide[:, 1] == r).all()
        assert (at_root == (folded(n) if r == n - 1 else r)).all()
        assert (part == folded(n, r)).all() and (single == folded(n, r)).all()
        assert not later or works[0].result()[0] is arrays[0]


def threads(r, n):
    here = {threading.current_thread()} if n > 1 else set()
    noted = Noted()
    work = dist.all_reduce(x := np.full(3, r), noted.op, async_op=True)
    work.wait()
    assert (x == folded(n)).all() and noted.threads == here
    work = dist.all_reduce(x := np.full(3, r), noted.op, async_op=True)
    until(work.is_completed)
    assert (x == folded(n)).all() and noted.threads == here
    noted = Noted()
    work = dist.all_reduce(x := np.full(3, r), noted.op, async_op=True)
    heard = work.get_future().then(lambda f: f.value()[0].copy())
    assert (heard.wait() == folded(n)).all()
    with ThreadPoolExecutor(1, "of the op") as pool:
        noted = Noted(pool)
        work = dist.all_reduce(x := np.full(3, r), noted.op, async_op=True)
        until(lambda: bool(noted.threads) or n == 1)  # nobody waits for it
        work.wait()
        assert (x == folded(n)).all() and all("of the op" in thread.name for thread in noted.threads)
        dist.all_reduce(x := np.full(3, r), noted.op)
        assert (x == folded(n)).all()

    async def both():
        one = dist.all_reduce(np.full(2, r), Noted().op, async_op=True)
        other = dist.all_reduce(np.full(2, r + 1), Noted().op, async_op=True)
        return [(await work)[0][0] for work in (other, one)]

    assert asyncio.run(both()) == [folded(n, 1), folded(n)]
    # Several threads wait for the same ones, while one keeps the GIL busy.
    works = [dist.all_reduce(x, Noted().op, async_op=True) for x in [np.full(2, r + i) for i in range(20)]]
    stop = threading.Event()
    busy = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])
    busy.start()
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work.wait) for work in works for _ in range(3)]:
            assert done.result(LIMIT) is True
    stop.set()
    busy.join()
    assert [work.result()[0][0] for work in works] == [folded(n, i) for i in range(20)]


def dropped(r, n):
    """What the operation needs lives until it is done, and no longer."""
    for executor in (None, ThreadPoolExecutor(1)):
        noted = Noted(executor)
        x = np.full(20_001, r)
        ended = weakref.ref(noted)
        dist.all_reduce(x, noted.op, async_op=True)
        del noted
        gc.collect()
        until(lambda: (x == folded(n)).all())

        def gone():
            dist.barrier()  # what is done is dropped by the next call
            gc.collect()
            return ended() is None

        until(gone) if n == 1 else [gone() for _ in range(3)]
        work = dist.all_reduce(np.full(3, r), Noted(executor).op, async_op=True)
        gc.collect()
        assert work.result()[0][0] == folded(n)
        if executor is not None:
            executor.shutdown()


def failures(r, n):
    if n == 1:
        return  # no function runs

    def failing(a, b):
        raise KeyError("no such thing")

    with ThreadPoolExecutor(1) as pool:
        for executor in (None, pool):
            op = dist.UserOp("failing", failing, executor=executor)
            before = (x := np.full(3, r)).copy()
            work = dist.all_reduce(x, op, async_op=True)
            raises(KeyError, "no such thing", work.wait)
            raises(KeyError, "no such thing", work.wait)
            assert isinstance(work.exception(), KeyError) and work.is_completed() and not work.is_success()
            assert (x == before).all()
            ended = weakref.ref(work)
            del work
            gc.collect()
            assert ended() is None  # though the exception knows the frames that knew it
            future = dist.all_reduce(x, op, async_op=True).get_future()
            raises(KeyError, "no such thing", future.wait)
            raises(KeyError, "no such thing", lambda: dist.all_reduce(x, op))
            works, made = [], threading.Event()

            def its_own(a, b, works=works, made=made):
                made.wait(LIMIT)
                assert not works[0].is_completed()
                works[0].wait()

            works.append(dist.all_reduce(np.ones(3), dist.UserOp("its own", its_own, executor=executor), async_op=True))
            made.set()
            raises(ValueError, "would wait for itself", works[0].wait)
    closed = dist.UserOp("closed", digits, executor=pool)
    raises(RuntimeError, "shutdown", dist.all_reduce(np.ones(3), closed, async_op=True).wait)
    raises(RuntimeError, "shutdown", lambda: dist.all_reduce(np.ones(3), closed))
    # An executor that is closed before it has come to it.
    pool = ThreadPoolExecutor(1)
    free = threading.Event()
    pool.submit(free.wait, LIMIT)
    work = dist.all_reduce(np.ones(3), dist.UserOp("late", digits, executor=pool), async_op=True)
    until(lambda: pool._work_queue.qsize() == 1)
    pool.shutdown(wait=False, cancel_futures=True)
    gc.collect()
    raises(dist.DistBackendError, "the executor has dropped its op", work.wait)
    free.set()
    dist.all_reduce(x := np.full(3, r), dist.UserOp("digits", digits))  # the group is as it was
    assert (x == folded(n)).all()


def dropped_by_exceptions(r, n):
    """The function runs elsewhere, and the exception goes on."""
    noted = Noted()
    x = np.full(3, r)

    def fail():
        dist.barrier()
        dist.barrier()  # so that the inputs are there
        return 1 / 0

    raises(ZeroDivisionError, "division by zero",
           lambda: [dist.all_reduce(x, noted.op, async_op=True), fail()])
    until(lambda: (x == folded(n)).all())
    assert threading.current_thread() not in noted.threads


def cycles(r, n):
    """A function that knows its Work ends with it, and may look at it then."""
    looked = []

    class Op:
        def __call__(self, a, b):
            return a

        def __del__(self):
            looked.append(self.work.is_completed())

    function = Op()
    function.work = work = dist.all_reduce(np.ones(3), dist.UserOp("knows", function), async_op=True)
    ended = weakref.ref(function)
    del function
    gc.collect()
    work.wait()
    gc.collect()
    assert ended() is None and looked == [True]


def odd_failures(r, n):
    class Late:
        """Its `submit` fails when the operation is over."""

        def submit(self, run):
            run()
            ran.set()
            gone.wait(LIMIT)
            raise RuntimeError("too late")

    ran, gone, seen = threading.Event(), threading.Event(), []
    hook, sys.unraisablehook = sys.unraisablehook, lambda problem: seen.append(str(problem.exc_value))
    try:
        x = np.full(3, r)
        work = dist.all_reduce(x, dist.UserOp("digits", digits, executor=Late()), async_op=True)
        assert ran.wait(LIMIT) and (x == folded(n)).all()
        del work
        dist.barrier()  # drops it
        gone.set()
        until(lambda: seen)
    finally:
        sys.unraisablehook = hook
    assert seen == ["too late"]
    if n == 1:
        return  # no function runs

    class Textless(Exception):
        def __str__(self):
            raise KeyError("no text")

    def of_bytes(a, b):
        raise ValueError("name \udc80")

    def textless(a, b):
        raise Textless

    for function, kind in ((of_bytes, ValueError), (textless, Textless)):
        for call in (lambda: dist.all_reduce(np.ones(3), dist.UserOp("odd", function)),
                     lambda: dist.all_reduce(np.ones(3), dist.UserOp("odd", function), async_op=True).wait()):
            try:
                call()
            except kind:
                continue
            raise AssertionError(f"no {kind}")
    try:
        dist.all_reduce(np.ones(3), dist.UserOp("short", lambda a, b: a[:2]))
    except TypeError as problem:
        for frame, _ in traceback.walk_tb(problem.__traceback__):
            bases = [value.base for value in frame.f_locals.values() if isinstance(value, np.ndarray)]
            assert not any(isinstance(base, memoryview) and base.obj is None for base in bases), "over memory that has ended"
    else:
        raise AssertionError("no TypeError")


def callbacks_that_wait(r, n):
    """On the thread of callbacks, which would have to run the function of what it waits for."""
    seen = []

    def wait_for_another(future):
        work = dist.all_reduce(x := np.full(3, r + 1), Noted().op, async_op=True)
        heard = work.get_future().then(lambda f: seen.append("then"))
        until(work.is_completed)
        with ThreadPoolExecutor(1) as pool:
            dist.all_reduce(y := np.full(3, r + 2), Noted(pool).op)
        return heard, int(x[0]), int(y[0])

    work = dist.all_reduce(np.full(3, r), Noted().op, async_op=True)
    heard, one, other = work.get_future().then(wait_for_another).wait()
    heard.wait()
    assert (one, other, seen) == (folded(n, 1), folded(n, 2), ["then"])


def coalesced(r, n):
    noted = Noted()
    with dist._coalescing_manager(async_ops=True) as manager:
        assert dist.all_reduce(a := np.full(3, r), noted.op) is None
        assert dist.reduce(b := np.full(3, r + 1), 0, noted.op) is None
        work = dist.reduce_scatter_single(c := np.zeros(2, np.int64), np.repeat(np.arange(n), 2) + r, noted.op,
                                          async_op=True)
        dist.all_reduce(d := np.ones(2))
        assert not noted.threads and (a == r).all()
    manager.wait()
    assert (a == folded(n)).all() and (c == folded(n, r)).all() and (d == n).all() and work.is_completed()
    assert (b == (folded(n, 1) if r == 0 else r + 1)).all()
    with dist._coalescing_manager():
        dist.all_reduce(a := np.full(3, r), noted.op)
    assert (a == folded(n)).all()
