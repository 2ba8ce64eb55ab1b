"""The work of the actors of the tests. Ray sends the functions by value. Each gets its rank first."""

import os
import threading
import time


def init(rank, size, name):
    from ray.util import collective
    collective.init_collective_group(size, rank, "TUTTI", name)
    assert collective.get_rank(name) == rank and collective.get_collective_group_size(name) == size


def destroy(rank, name):
    from ray.util import collective
    collective.destroy_collective_group(name)


def make(kind, dtype, values):
    """An array of NumPy or torch."""
    if kind == "numpy":
        import numpy
        return numpy.array(values, dtype)
    import torch
    return torch.tensor(values, dtype=getattr(torch, dtype))


def values_of(array):
    return array.tolist()


def eight_operations(rank, size, name, kind, dtype):
    """Every operation, with values of which each is right in one way only."""
    import math

    from ray.util import collective
    from ray.util.collective.types import ReduceOp

    def array(values):
        return make(kind, dtype, values)

    def small(r, i, block=0):
        return 1 + (r + i + block) % 2  # products are exact in every dtype

    own = [rank * 2 + i + 1 for i in range(3)]
    for op, fold in ((ReduceOp.SUM, sum), (ReduceOp.PRODUCT, math.prod), (ReduceOp.MIN, min), (ReduceOp.MAX, max)):
        mine = [small(rank, i) for i in range(3)]
        expected = [fold(small(r, i) for r in range(size)) for i in range(3)]
        x = array(mine)
        collective.allreduce(x, name, op)
        assert values_of(x) == expected, (op, x)
        for root in range(size):
            x = array(mine)
            collective.reduce(x, root, name, op)
            assert values_of(x) == (expected if rank == root else mine), (op, root, x)
        lists = [array([small(rank, i, block) for i in range(3)]) for block in range(size)]
        kept = [values_of(part) for part in lists]
        x = array([0, 0, 0])
        collective.reducescatter(x, lists, name, op)
        assert values_of(x) == [fold(small(r, i, rank) for r in range(size)) for i in range(3)], (op, x)
        assert [values_of(part) for part in lists] == kept
    for root in range(size):
        x = array(own)
        collective.broadcast(x, root, name)
        assert values_of(x) == [root * 2 + i + 1 for i in range(3)], (root, x)
    outputs = [array([0, 0, 0]) for _ in range(size)]
    collective.allgather(outputs, array(own), name)
    assert [values_of(part) for part in outputs] == [[r * 2 + i + 1 for i in range(3)] for r in range(size)]
    for other in range(size):
        if other == rank:
            continue
        x = array([0, 0, 0])
        if rank < other:
            collective.send(array(own), other, name)
            collective.recv(x, other, name)
        else:
            collective.recv(x, other, name)
            collective.send(array(own), other, name)
        assert values_of(x) == [other * 2 + i + 1 for i in range(3)]
    collective.barrier(name)


def large(rank, size, name):
    """4 MB, strided: a column of a matrix."""
    import numpy
    from ray.util import collective
    matrix = numpy.zeros((1 << 19, 2))
    matrix[:, 1] = rank + 1
    collective.allreduce(matrix[:, 1], name)
    assert (matrix[:, 1] == size * (size + 1) / 2).all() and not matrix[:, 0].any()


def sum_of(rank, name, value=None):
    """The sum of the ranks' numbers; the group is made here if it was only declared."""
    import numpy
    from ray.util import collective
    x = numpy.array([rank + 1.0 if value is None else value])
    collective.allreduce(x, name)
    return float(x[0])


def again_and_again(rank, size, name, times):
    """Groups of one name that follow each other without a pause."""
    for turn in range(times):
        init(rank, size, name)
        assert sum_of(rank, name, float(turn)) == size * turn
        destroy(rank, name)


def late(rank, size, name, seconds):
    time.sleep(seconds)
    init(rank, size, name)


def from_threads(rank, size, names):
    """Each group is used by a thread of its own, at the same time, and by none that has made it."""
    problems = []

    def work(name, value):
        try:
            for turn in range(50):
                assert sum_of(rank, name, value + turn) == size * (value + turn)
        except Exception as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(name, 10.0 * place)) for place, name in enumerate(names)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def failing(rank, function, *arguments):
    """Calls it, and keeps the time at which it failed: Ray brings the error itself later on a busy machine."""
    try:
        function(rank, *arguments)
    except Exception:
        os.environ["FAILED_AT"] = str(time.monotonic())
        raise


def failed_at(rank):
    return float(os.environ["FAILED_AT"])


def after_the_end(rank, size, name):
    """A handle that outlived its group, and the name."""
    import numpy
    import tutti
    from ray.util import collective
    init(rank, size, name)
    handle = collective.collective.get_group_handle(name)
    destroy(rank, name)
    for call in (lambda: handle.allreduce([numpy.ones(1)]), handle.barrier):
        try:
            call()
        except tutti.InvalidArgument as problem:
            assert "closed" in str(problem), problem
        else:
            raise AssertionError("a closed group was used")
    handle.destroy_group()  # twice does no harm
    try:
        collective.barrier(name)
    except RuntimeError as problem:
        assert "not initialized" in str(problem), problem
    else:
        raise AssertionError("a name without a group was used")


def refused(rank, name):
    """Calls that are wrong on this rank alone: each raises at once, and the group goes on."""
    import numpy
    from ray.util import collective
    ones = numpy.ones(2)
    read_only = numpy.ones(2)
    read_only.flags.writeable = False
    group = collective.collective.get_group_handle(name)
    said = []
    for kind, call in (
            (ValueError, lambda: collective.allreduce(ones, name, "SUM")),
            (ValueError, lambda: collective.reduce(ones, 0, name, [])),
            (TypeError, lambda: collective.allreduce(read_only, name)),
            (TypeError, lambda: collective.allreduce(numpy.array([None, 1]), name)),
            (ValueError, lambda: group.allgather([[numpy.ones(2)]], [ones])),
            (ValueError, lambda: collective.allgather([numpy.ones(3), numpy.ones(3)], ones, name)),
            (ValueError, lambda: group.allreduce([ones, ones])),
            (ValueError, lambda: group.send([ones], type("Options", (), {"dst_rank": 1 - rank, "n_elements": 1})))):
        try:
            call()
        except kind as problem:
            said.append(str(problem))
        else:
            raise AssertionError(f"call {len(said)} was not refused")
    assert sum_of(rank, name) == 3.0
    return said


def differs(rank, name):
    """Rank 1 calls something else."""
    import numpy
    from ray.util import collective
    x = numpy.ones(2 if rank == 0 else 3)
    collective.allreduce(x, name)


def register_twice(rank):
    import tutti.ray
    tutti.ray.register()
    tutti.ray.register()


def die(rank):
    os.kill(os.getpid(), 9)
