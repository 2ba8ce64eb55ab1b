"""Reduce ops of the caller's, in tutti.distributed: functions of a Crew. Each asserts on its rank."""

import array
import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import tutti.distributed as dist
from tutti.errors import DisagreementError

from dist_crew import adopt, raises  # noqa: F401


def digits(a, b):
    """Neither commutative nor associative."""
    return a * 10 + b


def folded(n, first=0):
    """Of numbers that ascend from this one."""
    value = first
    for r in range(1, n):
        value = value * 10 + first + r
    return value


def in_order(r, n):
    op = dist.UserOp("digits", digits)
    for count in (0, 1, 5, 20_001):
        assert dist.all_reduce(x := np.full(count, r, np.int64), op) is None
        assert (x == folded(n)).all()
    wide = np.full((4, 6), r, np.int64)
    dist.all_reduce(wide[:, ::2], op=op)
    assert (wide[:, ::2] == folded(n)).all() and (wide[:, 1::2] == r).all()
    dist.reduce(x := np.full(3, r), n - 1, op)
    assert (x == (folded(n) if r == n - 1 else r)).all()
    dist.reduce_scatter(x := np.zeros(2, np.int64), [np.full(2, r + i) for i in range(n)], op)
    assert (x == folded(n, r)).all()
    for call in (dist.reduce_scatter_single, dist.reduce_scatter_tensor):
        call(x := np.zeros(2, np.int64), np.repeat(np.arange(n), 2) + r, op)
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
