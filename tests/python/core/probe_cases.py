"""What ranks do in the tests of probes: functions of a Crew. Each asserts on its rank."""

import numpy as np

import tutti
from raising import raises


def neighbours(world):
    return (world.rank + 1) % world.size, (world.rank - 1) % world.size


def sizes(world):
    after, before = neighbours(world)
    for size in (0, 1, 1000, 100_000, 3_000_000):
        work = world.isend(np.arange(size) + world.rank, after, tag=3)
        message = world.probe(before, tag=3)
        assert (message.source, message.tag, message.dtype, message.numel) == (before, 3, "int64", size)
        message.recv(got := np.zeros(size, np.int64))
        assert (got == np.arange(size) + before).all()
        work.wait()
    assert world.try_probe(tag=3) is None


def dtypes(world):
    after, before = neighbours(world)
    for name in ("bool", "uint8", "int16", "uint32", "int64", "float16", "float32", "float64", "complex64"):
        work = world.isend(np.ones((2, 3), name), after)
        message = world.probe(before)
        assert message.dtype == name and message.numel == 6
        message.recv(got := np.zeros((3, 4), name)[:, ::2])
        assert (got == 1).all()
        work.wait()


def wrong_buffers(world):
    after, before = neighbours(world)
    work = world.isend(np.arange(50_000.0), after)
    message = world.probe(before)
    for wrong in (np.zeros(49_999), np.zeros(50_000, np.float32)):
        raises(tutti.InvalidArgument, "the message has float64 x 50000", lambda wrong=wrong: message.recv(wrong))
    raises(TypeError, "", lambda: message.recv(3))
    message.recv(got := np.zeros(50_000))
    assert (got == np.arange(50_000)).all()
    raises(tutti.InvalidArgument, "empty", lambda: message.recv(got))
    work.wait()
    assert world.health() is None


def order(world):
    after, before = neighbours(world)
    works = [world.isend(np.full(i + 1, i), after) for i in range(6)]
    first, second, third = (world.probe() for _ in range(3))
    world.recv(got := np.zeros(4, np.int64), before)
    assert (got == 3).all()
    del second
    third.recv(got := np.zeros(3, np.int64))
    del first
    for i in (0, 1, 4, 5):
        world.recv(got := np.zeros(i + 1, np.int64), before)
        assert (got == i).all()
    for work in works:
        work.wait()


def wrong_calls(world):
    raises(tutti.InvalidArgument, "must be a rank", lambda: world.probe(world.size))
    raises(tutti.InvalidArgument, "must not be negative", lambda: world.try_probe(0, tag=-1))
    for call in (world.probe, world.try_probe, lambda **one: world.recv(np.ones(1), **one),
                 lambda **one: world.irecv(np.ones(1), **one), lambda **one: world.send(np.ones(1), world.rank, **one),
                 lambda **one: world.isend(np.ones(1), world.rank, **one)):
        for tag in ("0", 0.5):
            raises(TypeError, f"tag must be a whole number", lambda: call(tag=tag))
        raises(tutti.InvalidArgument, "tag must be a whole number from 0 to 2147483647", lambda: call(tag=1 << 31))
    for call in (world.send, world.isend):
        raises(TypeError, "tag must be a whole number, not None", lambda: call(np.ones(1), world.rank, tag=None))
    world.isend(np.ones(1), world.rank).wait()
    raises(tutti.InvalidArgument, "timeout", lambda: world.probe(world.rank, timeout=0))
    world.recv(np.ones(1), world.rank)
    assert world.health() is None
