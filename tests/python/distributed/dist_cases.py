"""What ranks do in the tests of tutti.distributed: functions of a Crew. Each asserts on its rank."""

import asyncio
import datetime
import threading

import numpy as np

import tutti.distributed as dist
from tutti.errors import DisagreementError, InvalidArgument

from dist_crew import adopt, raises  # noqa: F401
from dist_group_cases import groups, mesh, mesh_order, missing_rank  # noqa: F401
from dist_object_cases import objects, objects_and_lists  # noqa: F401


def beyond_torch(r, n):
    """Collectives and forms that torch.distributed with gloo does not have."""
    dist.gather_single(whole := np.zeros((n, 2)) if r == 0 else None, np.full(2, float(r)), 0)
    assert r or (whole == np.arange(n)[:, None]).all()
    dist.scatter_single(got := np.zeros(2), np.arange(2.0 * n) if r == 0 else None, 0)
    assert (got == [2 * r, 2 * r + 1]).all()
    dist.all_reduce(x := np.ones(3), dist.premul_sum(0.5))
    assert (x == 0.5 * n).all()
    dist.all_reduce(x := np.ones(3), dist.premul_sum(np.arange(3.0)))
    assert (x == n * np.arange(3)).all()
    dist.scan(x := np.full(3, r + 1.0))
    assert (x == (r + 1) * (r + 2) / 2).all()
    assert dist.scan(x := np.full(3, r + 1.0), dist.ReduceOp.MAX, None, True, True).wait()
    assert (x == max(r, 1)).all()  # rank 0's own, else that of the rank before
    dist.scan(x := np.full(3, 2.0 * r), op=dist.ReduceOp.AVG, timeout=20)
    assert (x == r).all()
    dist.scan(x := np.ones(3), dist.premul_sum(0.5), exclusive=True)
    assert (x == (0.5 * r if r else 1)).all()
    raises(TypeError, "", lambda: dist.scan([np.ones(3)]))
    raises(ValueError, "complex", lambda: dist.scan(np.ones(3, complex), dist.ReduceOp.MAX))
    sizes = [(3 * each + 1) % 4 for each in range(n)]  # some have none
    mine = np.full(sizes[r], float(r))
    everything = np.repeat(np.arange(float(n)), sizes)
    got, counts = dist.all_gather_v(mine)
    assert got.dtype == mine.dtype and (got == everything).all() and counts == sizes
    got, counts = dist.gather_v(mine, n - 1, timeout=20)
    assert (got is None and counts == []) if r < n - 1 else (got == everything).all() and counts == sizes
    got, counts = dist.all_to_all_v(np.repeat(np.arange(n), sizes), sizes)
    assert (got == r).all() and counts == [sizes[r]] * n
    got, counts = dist.all_gather_v(bytearray(b"ab"))  # of no library
    assert bytes(memoryview(got)) == b"ab" * n and counts == [2] * n
    raises(ValueError, "2 counts for the input" if n == 1 else "a count of 9", lambda: dist.all_to_all_v(mine, [9] * max(n, 2)))
    raises(TypeError, "tensor", lambda: dist.gather_v([mine]))
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20), wait_all_ranks=True)
    dist.all_reduce(bytearray(b"ab"), timeout=20)


def memory_of_the_host(r, n):
    """Inputs in memory that the other ranks read: they may be changed as soon as the call is over."""
    for shape, dtype in ((40_000, "float32"), ((3, 50_000), np.int16), ((2, 2), "complex64")):
        x = dist.empty(shape, dtype)
        assert x.dtype == dtype and not x.any() and x.flags.writeable
        for k in range(3):
            x.flat = np.arange(x.size) % 100 + r + k
            dist.all_gather(got := [np.zeros_like(x) for _ in range(n)], x)
            x[:] = 0
            for rank, each in enumerate(got):
                assert (each.flat == np.arange(x.size) % 100 + rank + k).all()
        dist.all_reduce(x)
        assert not x.any()
    assert dist.empty(0).shape == (0,) and dist.empty((2, 0, 3), "int8").shape == (2, 0, 3)
    assert dist.empty(np.int64(3)).shape == (3,) and dist.empty([np.int8(2), 1]).shape == (2, 1)
    raises(ValueError, "negative", lambda: dist.empty((2, -1)))
    raises(TypeError, "integer", lambda: dist.empty((2.5,)))
    raises(TypeError, "data type", lambda: dist.empty(3, "no type"))
    raises(dist.DistBackendError, "memory", lambda: dist.empty(1 << 58))
    raises(dist.DistBackendError, "memory", lambda: dist.empty((1 << 40, 1 << 40)))
    kept = dist.empty(10_000, group=dist.new_group(list(range(n))))[5:]
    kept[:] = r
    assert (kept == r).all()


def to_oneself(r, n):
    x, y = np.full(3, float(r)), np.zeros(3)
    works = [dist.irecv(y, r, tag=3), dist.isend(x, r, tag=3)]
    assert [work.wait() for work in works] == [True, True] and (y == r).all()
    assert works[0].source_rank() == r
    raises(RuntimeError, "sourceRank", lambda: works[1].source_rank())


def neighbors(r, n):
    """What programs of MPI know: any tag, the first of several works, sendrecv, nobody as a peer, and grids."""
    after, before = (r + 1) % n, (r - 1) % n
    for tag in (7, 5):
        dist.isend(np.full(2, tag), after, tag=tag)
    message = dist.probe(before, tag=None)
    assert message.tag == 7 and (message.recv() == 7).all()
    work = dist.irecv(x := np.zeros(2, int), tag=None)
    work.wait()
    assert (work.source_rank(), work.tag()) == (before, 5) and (x == 5).all()
    dist.barrier()
    raises(ValueError, "must not be negative", lambda: dist.recv(x, before, tag=-1))

    xs = [np.zeros(1) for _ in range(n)]
    works = [dist.irecv(x, source, tag=3) for source, x in enumerate(xs)]
    assert dist.wait_any(works, 0.01) is None and dist.wait_some(works, 0) == []
    dist.barrier()
    for peer in range(n):
        dist.isend(np.full(1, float(r)), peer, tag=3)
    got = []
    while len(got) < n:
        got += dist.wait_some(works) if len(got) % 2 else [dist.wait_any(works)]
        assert xs[got[-1]] == got[-1] and works[got[-1]].source_rank() == got[-1]
    assert sorted(got) == list(range(n)) and dist.wait_any(works) is None and dist.wait_some(works) == []
    x = np.ones(1)
    work = dist.all_reduce(x, dist.UserOp("first", lambda a, b: a), async_op=True)
    assert dist.wait_any([dist.barrier(async_op=True), work]) in (0, 1) and work.wait()
    raises(AttributeError, "_low", lambda: dist.wait_any([3]))

    work = dist.irecv(x, tag=99)
    heard = threading.Event()
    work.get_future().add_done_callback(lambda _: heard.set())
    assert work.cancel() and not work.cancel() and work.is_completed()
    raises(InvalidArgument, "cancelled", work.wait)
    assert heard.wait(20) and not dist.barrier(async_op=True).cancel()

    assert dist.recv(x, dist.NO_RANK) == dist.NO_RANK
    dist.send(x, dist.NO_RANK)
    dist.isend(x, dist.NO_RANK).wait()
    big, theirs = np.full(100_000, r), np.zeros(100_000, int)
    assert dist.sendrecv(theirs, before, big, after, send_tag=2, recv_tag=2) == before and (theirs == before).all()
    raises(InvalidArgument, "share memory", lambda: dist.sendrecv(big, before, big, after))
    assert dist.sendrecv(theirs, dist.NO_RANK, big, dist.NO_RANK) == dist.NO_RANK

    grid = dist.cart([0, 1], [True, False])
    assert grid.dims == [n, 1] and grid.coords() == [r, 0] and grid.coords(before) == [before, 0]
    assert grid.shift(0) == (before, after) and grid.shift(1) == (dist.NO_RANK, dist.NO_RANK)
    assert grid.rank([r + n, 0]) == r and grid.rank([0, 1]) == dist.NO_RANK
    halos = [np.zeros(1), np.zeros(1), None, None]
    for work in grid.neighbor_all_to_all(halos, [np.full(1, r + 0.25), np.full(1, r + 0.75), None, None], tag=40):
        work.wait()
    assert halos[0] == before + 0.75 and halos[1] == after + 0.25
    raises(ValueError, "has 4 neighbours", lambda: grid.neighbor_all_to_all(halos, []))
    raises(InvalidArgument, "one place for each", lambda: dist.cart([n + 1]))


def works(r, n):
    x = np.ones(4)
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() is True and work.result()[0] is x
    future = work.get_future()
    assert future.wait()[0] is x and future.value()[0] is x
    raises(ZeroDivisionError, "", future.then(lambda f: 1 // 0).wait)
    assert work.get_future_result().wait() is dist.WorkResult.SUCCESS
    heard = []
    dist.all_reduce(x, async_op=True).get_future().add_done_callback(heard.append)
    dist.barrier()

    async def main():
        [got] = await dist.all_reduce(x, async_op=True)
        assert got is x
        async for got in dist.all_reduce(x, async_op=True):
            assert got is x
        assert await dist.barrier(async_op=True) == []
        both = [dist.all_reduce(np.ones(1), async_op=True), dist.barrier(async_op=True)]
        ended = [done async for done in dist.as_completed(both)]
        assert set(map(id, ended)) == set(map(id, both))
        assert (await dist.all_reduce(x, async_op=True).get_future())[0] is x

    asyncio.run(main())
    assert len(list(dist.as_completed([dist.barrier(async_op=True) for _ in range(3)]))) == 3
    # Too short: nothing is cancelled.
    if n > 1:
        if r == 0:
            work = dist.barrier(async_op=True)
            raises(TimeoutError, "", lambda: work.wait(0.01))
            dist.send(x, 1)
            assert work.wait()
        else:
            if r == 1:
                dist.recv(x, 0)
            dist.barrier()
    while not heard:  # the callback's thread
        pass


def nobody_is_minus_one(r, n):
    """-1 is no rank, and 2**40 is none; only None means anybody. Nothing is received, so the group is as it was."""
    x = np.ones(2)
    none = f"rank -1 is none of the group's 0 to {n - 1}"
    for where in ({"src": -1}, {"group_src": -1}):
        for call in (lambda: dist.recv(x, **where), lambda: dist.irecv(x, **where), lambda: dist.probe(**where),
                     lambda: dist.recv_object_list([None], **where)):
            assert "to receive from any rank give none, or None" in str(raises(ValueError, none, call))
    for call in (dist.send, dist.broadcast, dist.reduce, lambda x, rank: dist.P2POp(dist.irecv, x, rank)):
        assert "receive" not in str(raises(ValueError, none, lambda: call(x, -1)))
    for beyond in (2**31, 2**40):
        for call in (dist.send, dist.isend, dist.recv, dist.irecv, dist.broadcast, dist.reduce, dist.probe, dist.iprobe):
            first = () if call in (dist.probe, dist.iprobe) else (x,)
            for where in ("group_dst" if call in (dist.send, dist.isend, dist.reduce) else "group_src", None):
                given = {where: beyond} if where else {}
                raises(ValueError, f"rank {beyond} is none of the group's 0 to {n - 1}",
                       lambda: call(*first, *(() if where else (beyond,)), **given))
    dist.all_reduce(x)
    assert (x == n).all()


def splits_on_some(r, n):
    """No splits on one rank, equal ones on the others."""
    if n == 1:
        return
    group = dist.new_group(timeout=datetime.timedelta(seconds=20))
    splits = None if r == 0 else [1] * n
    raises(DisagreementError, "", lambda: dist.all_to_all_single(np.zeros(n), np.ones(n), splits, splits, group=group))
    dist.barrier()
    dist.destroy_process_group(group)


def multigpu(r, n):
    xs = [np.ones(4, np.float32) for _ in range(8)]
    dist.all_reduce_multigpu(xs)
    assert all((x == 8 * n).all() for x in xs)
    dist.reduce_multigpu(xs := [np.full(2, float(r * 3 + j)) for j in range(3)], n - 1, dist.ReduceOp.MAX, dst_tensor=1)
    assert xs[0][0] == r * 3 and xs[1][0] == (3 * n - 1 if r == n - 1 else r * 3 + 1)
    dist.all_reduce_multigpu(xs := [np.full(2, float(r * 3 + j)) for j in range(3)], dist.ReduceOp.AVG)
    assert all(x[0] == (3 * n - 1) / 2 for x in xs)
    dist.broadcast_multigpu(xs := [np.full(2, r * 10 + j) for j in range(3)], n - 1, src_tensor=2)
    assert all((x == (n - 1) * 10 + 2).all() for x in xs)
    outs = [[np.zeros(1) for _ in range(2 * n)] for _ in range(2)]
    work = dist.all_gather_multigpu(outs, [np.full(1, r * 10.0 + j) for j in range(2)], async_op=True)
    work.wait()
    assert all(outs[i][k * 2 + j] == k * 10 + j for i in range(2) for k in range(n) for j in range(2))
    if n > 1:
        other = dist.new_group()
        raises(DisagreementError, "ranks disagree",
               lambda: dist.all_reduce_multigpu([np.ones(1) for _ in range(1 + (r == 1))], group=other))
    if r == 0:  # nobody else calls: what one rank can see is told before anything is sent
        pair, frozen = [np.ones(1), np.ones(1)], np.ones(1)
        frozen.flags.writeable = False
        raises(ValueError, "src_tensor is 2", lambda: dist.broadcast_multigpu(pair, 0, src_tensor=2))
        raises(ValueError, "dst_tensor is -1", lambda: dist.reduce_multigpu(pair, 0, dst_tensor=-1))
        raises(ValueError, "pre-multiplied", lambda: dist.all_reduce_multigpu(pair, dist.premul_sum(2.0)))
        raises(ValueError, "one size", lambda: dist.all_reduce_multigpu([np.ones(1), np.ones(2)]))
        raises(ValueError, "must have one size", lambda: dist.all_gather_multigpu([[np.ones(2)] * n], [np.ones(1)]))
        raises(ValueError, "it must have", lambda: dist.all_gather_multigpu([[np.ones(1)] * (n + 1)], [np.ones(1)]))
        for wrong in (frozen, memoryview(b"12345678").cast("d")):
            for call in (lambda: dist.all_reduce_multigpu([wrong]), lambda: dist.broadcast_multigpu([np.ones(1), wrong], 0),
                         lambda: dist.reduce_multigpu([wrong], 0), lambda: dist.all_gather_multigpu([[wrong] * n], [np.ones(1)])):
                raises(TypeError, "read-only", call)
        raises(TypeError, "", lambda: dist.all_reduce_multigpu([np.array([object()])]))
        raises(ValueError, "no meaning", lambda: dist.all_reduce_multigpu(pair, dist.ReduceOp.BAND))
        raises(ValueError, "overlap", lambda: dist.all_reduce_multigpu([pair[0]] * 2))
    dist.barrier()  # the group is as it was


def coalesced(r, n):
    whole = [np.zeros(n), np.zeros(2 * n)]
    dist.all_gather_into_tensor_coalesced(whole, [np.full(1, float(r)), np.full(2, float(r))])
    assert whole[1].tolist() == np.repeat(np.arange(n), 2).tolist()
    parts = [np.zeros(1), np.zeros(2)]
    dist.reduce_scatter_tensor_coalesced(parts, [np.arange(1.0 * n), np.arange(2.0 * n)])
    assert parts[1].tolist() == [2 * r * n, (2 * r + 1) * n]
    with dist._coalescing_manager(async_ops=True) as manager:
        a, b = np.ones(3), np.full(2, r)
        dist.all_reduce(a)
        dist.broadcast(b, n - 1)
        dist.scan(c := np.ones(2))
        dist.all_reduce_multigpu([d := np.ones(1)])
    assert len(manager.works) == 4
    manager.wait()
    assert (a == n).all() and (b == n - 1).all() and (c == r + 1).all() and (d == n).all()


def several_as_one(r, n):
    """Works of many parts: every future hears once, after the last part and what follows it."""
    for _ in range(20):
        outs = [[np.zeros(1) for _ in range(3 * n)] for _ in range(3)]
        work = dist.all_gather_multigpu(outs, [np.full(1, r * 10.0 + j) for j in range(3)], async_op=True)
        heard = []
        futures = [work.get_future().then(lambda f: heard.append([t[0] for t in f.value()])) for _ in range(3)]
        for future in futures:
            future.wait()
        assert work.is_completed() and work.is_success() and work.exception() is None
        assert heard == [[k * 10.0 + j for _ in range(3) for k in range(n) for j in range(3)]] * 3, heard


def timeouts(r, n):
    """Each operation's own; it breaks the group, and no other."""
    if n == 1:
        return
    for call in (lambda g, x: dist.all_reduce(x, group=g, timeout=0.05),
                 lambda g, x: dist.broadcast(x, 1, g, timeout=datetime.timedelta(milliseconds=50)),
                 lambda g, x: dist.recv(x, 1, g, timeout=0.05),
                 lambda g, x: dist.barrier(g, timeout=0.05),
                 lambda g, x: dist.all_gather_object([None] * n, 1, g, timeout=0.05),
                 lambda g, x: dist.all_reduce_multigpu([x], group=g, timeout=0.05),
                 lambda g, x: dist.all_reduce(x, group=g, async_op=True, timeout=0.05).wait()):
        group = dist.new_group()
        if r == 0:
            problem = raises(TimeoutError, "", lambda: call(group, np.ones(2)))
            assert isinstance(problem, dist.DistBackendError) and isinstance(problem, RuntimeError)
            assert group.health() is not None and dist.group.WORLD.health() is None
        dist.barrier()
        dist.destroy_process_group(group)


def roots_without_rank_0(r, n):
    """A group that global rank 0 is not in needs a root that is said."""
    group, size = dist.new_group(list(range(1, n))) if n > 1 else None, n - 1
    if r == 0:
        return
    for root in ({"dst": n - 1}, {"group_dst": size - 1}):
        out = [np.zeros(2) for _ in range(size)] if r == n - 1 else None
        dist.gather(np.full(2, float(r)), out, group=group, **root)
        assert r < n - 1 or all((o == i + 1).all() for i, o in enumerate(out))
        out = np.zeros(size) if r == n - 1 else None
        dist.gather_single(out, np.full(1, float(r)), group=group, **root)
        assert r < n - 1 or (out == np.arange(1, n)).all()
        objects = [None] * size if r == n - 1 else None
        dist.gather_object(r, objects, group=group, **root)
        assert r < n - 1 or objects == list(range(1, n))
    for root in ({"src": n - 1}, {"group_src": size - 1}):
        dist.scatter(got := np.zeros(1), [np.full(1, i + 1.5) for i in range(size)] if r == n - 1 else None,
                     group=group, **root)
        assert got == r + 0.5
        dist.scatter_single(got := np.zeros(1), np.arange(float(size)) if r == n - 1 else None, group=group, **root)
        assert got == r - 1
        dist.scatter_object_list(objects := [None], list("abcdefg"[:size]) if r == n - 1 else None, group=group,
                                 **root)
        assert objects == ["abcdefg"[r - 1]]
        dist.broadcast_object_list(objects := [r], group=group, **root)
        assert objects == [n - 1]
    part = "Global rank 0 is not part of group"
    raises(ValueError, part, lambda: dist.gather(np.ones(1), group=group))
    raises(ValueError, part, lambda: dist.scatter_object_list([None], None, group=group))


def wrong_calls(r, n):
    """Nothing is sent, so the group is as it was."""
    x = np.ones(2)
    read_only = np.ones(2)
    read_only.flags.writeable = False
    raises(TypeError, "read-only", lambda: dist.all_reduce(read_only))
    raises(ValueError, "factor", lambda: dist.all_reduce(x, dist.ReduceOp.PREMUL_SUM))
    raises(TypeError, "list", lambda: dist.all_gather_object(3, 1))
    raises(ValueError, "places", lambda: dist.all_gather_object([], 1))
    raises(RuntimeError, "NCCL", lambda: dist.new_group([0], backend="nccl"))
    dist.all_reduce(x)
    assert (x == n).all()


def methods(r, n):
    """Methods of a group in forms that torch's programs do not have with gloo."""
    pg = dist.group.WORLD
    pg.broadcast([x := np.full(1, r)], dist.BroadcastOptions(rootRank=n - 1)).wait()
    assert x == n - 1
    # The other form: plain tensors, the operation or the root, the timeout.
    limit = datetime.timedelta(seconds=20)
    pg.allreduce_coalesced(several := [np.ones(1), np.ones(2)]).wait()
    assert all((x == n).all() for x in several)
    pg.reduce(x := np.full(1, 1.0), root=0, op=dist.ReduceOp.SUM, timeout=limit).wait()
    assert x == (n if r == 0 else 1)
    pg.gather(out := [np.zeros(1) for _ in range(n)] if r == 0 else [], np.full(1, float(r)), 0).wait()
    assert r or [float(x[0]) for x in out] == list(range(n))
    pg.scatter(x := np.zeros(1), [np.full(1, float(i)) for i in range(n)] if r == 0 else [], 0).wait()
    assert x == r
    pg.allgather_coalesced([[np.zeros(1), np.zeros(2)] for _ in range(n)], [np.ones(1), np.ones(2)]).wait()
    pg.reduce_scatter_tensor_coalesced([x := np.zeros(1)], [np.arange(float(n))]).wait()
    assert x == n * r
    pg.monitored_barrier(limit, True)


def probes(r, n):
    after, before = (r + 1) % n, (r - 1) % n
    reverse = dist.new_group(list(reversed(range(n))))
    work = dist.isend(np.arange(7, dtype=np.float32), after, reverse, 2)
    message = dist.probe(before, reverse, 2)
    assert repr(message) == f"Message(source={before}, tag=2, dtype='float32', numel=7)"
    got = message.recv()
    assert isinstance(got, np.ndarray) and got.dtype == np.float32 and (got == np.arange(7)).all()
    work.wait()
    assert dist.iprobe(None, reverse, 2) is None
    work = dist.isend(np.ones(2), after)
    while (message := dist.iprobe()) is None:
        pass
    assert message.source == before
    room = np.zeros(2)
    assert message.recv(room) is room and (room == 1).all()
    work.wait()
    raises(ValueError, "", lambda: dist.probe(-1))
    dist.destroy_process_group(reverse)
    others = dist.new_group([0])
    if r > 0:
        raises(ValueError, "is not in the group", lambda: dist.probe(0, others))
        raises(ValueError, "is not in the group", lambda: dist.iprobe(0, others))


def property_case(r, n, seed):
    """A random program, the same on every rank: operations on groups, arrays of random form."""
    choose = np.random.default_rng(seed)
    groups = [None]
    for _ in range(2):
        members = sorted(choose.choice(n, size=int(choose.integers(1, n + 1)), replace=False).tolist())
        groups.append((dist.new_group(members), members))
    pending = []
    for step in range(12):
        chosen = groups[int(choose.integers(len(groups)))]
        group, members = (None, list(range(n))) if chosen is None else chosen
        kind = int(choose.integers(5))
        shape = tuple(int(k) for k in choose.integers(0, 5, size=int(choose.integers(0, 4))))
        dtype = [np.float32, np.float64, np.int16, np.int64, np.uint8][int(choose.integers(5))]
        root = members[int(choose.integers(len(members)))]
        order, flip, later = choose.permutation(len(shape)), bool(choose.integers(2)), bool(choose.integers(2))
        if r not in members:
            continue

        def form(values):
            """The values in an array of random strides."""
            whole = np.zeros(tuple(2 * k for k in shape), dtype).transpose(order)
            view = whole.transpose(np.argsort(order))[(..., *(slice(None, None, 2) for _ in shape))]
            view = view[::-1] if flip and shape else view
            view[...] = values
            return view

        def value(rank):
            return (np.arange(int(np.prod(shape))).reshape(shape) * 3 + rank + step) % 5

        x, every = form(value(r)), [value(m) for m in members]
        rooms = [form(np.zeros(shape)) for _ in members]
        pending.append([
            lambda: (dist.all_reduce(x, group=group, async_op=later), x, sum(every)),
            lambda: (dist.broadcast(x, root, group, async_op=later), x, value(root)),
            lambda: (dist.reduce(x, root, dist.ReduceOp.MAX, group, async_op=later), x,
                     np.max(every, axis=0) if r == root else value(r)),
            lambda: (dist.all_gather(rooms, x, group, async_op=later), rooms, every),
            lambda: (dist.all_to_all(rooms, [form(value(r) + i) for i in range(len(members))], group, async_op=later), rooms,
                     [each + members.index(r) for each in every]),
        ][kind]())
    for position in choose.permutation(len(pending)) if pending else []:
        work, x, want = pending[position]
        if work is not None:
            work.wait()
        for got, wanted in zip(x, want) if isinstance(x, list) else [(x, want)]:
            assert (got == np.asarray(wanted).astype(got.dtype)).all(), (seed, got, wanted)
    for group, members in groups[1:]:
        dist.destroy_process_group(group)
    dist.barrier()


def shapes(r, n):
    """A wrong shape with the right number of elements is an error at the call, of every operation on blocks."""
    pg = dist.group.WORLD
    ones, zeros = np.ones, np.zeros

    def rows(*shape):
        return [zeros(shape) for _ in range(n)]

    def refused(part, call):
        raises(InvalidArgument, f"invalid array size at index {part}", call)

    for shape, shown in (((3, 2), "(3, 2)"), ((6,), "(6)"), ((1, 2, 3), "(1, 2, 3)")):
        said = f"0 (expected (2, 3), got {shown})"
        refused(said, lambda: dist.all_gather(rows(*shape), ones((2, 3))))
        refused(said, lambda: pg.allgather([rows(*shape)], [ones((2, 3))]))
        refused(said, lambda: dist.all_gather_coalesced([[each] for each in rows(*shape)], [ones((2, 3))]))
        refused(said, lambda: dist.reduce_scatter(zeros((2, 3)), rows(*shape)))
        refused(said, lambda: pg.reduce_scatter([zeros((2, 3))], [rows(*shape)]))
        refused(f"{n} (expected (2, 3)", lambda: dist.all_to_all(rows(*shape), rows(2, 3)))
        refused(f"{n} (expected (2, 3)", lambda: pg.alltoall(rows(*shape), rows(2, 3)))
        if r == 0:
            refused(said, lambda: dist.gather(ones((2, 3)), rows(*shape), dst=0))
            refused(said, lambda: dist.scatter(ones((2, 3)), rows(*shape), src=0))
    refused(f"{n - 1} (expected (2, 3), got (6))", lambda: dist.all_gather([*rows(2, 3)[1:], zeros(6)], ones((2, 3))))
    for shape in ((2, 3 * n), (6 * n,), (3, n, 2)) if n > 1 else ((6,), (3, 1, 2)):
        for call in (lambda large, small: dist.all_gather_into_tensor(large, small),
                     lambda large, small: dist.reduce_scatter_tensor(small, large),
                     lambda large, small: dist.all_gather_into_tensor_coalesced([large], [small]),
                     lambda large, small: dist.reduce_scatter_tensor_coalesced([small], [large]),
                     pg._allgather_base, lambda large, small: pg._reduce_scatter_base(small, large),
                     *((dist.gather_single, lambda large, small: dist.scatter_single(small, large)) if r == 0 else ())):
            refused("0 (expected (2, 3) of each", lambda: call(zeros(shape), ones((2, 3))))
    dist.reduce_scatter_tensor(part := zeros((2, 3)), ones((n, 2, 3)))  # stacked
    assert (part == n).all()
    dist.all_gather_into_tensor(whole := zeros(n), np.array(float(r)))  # of no dimensions
    assert whole.tolist() == list(range(n))
    dist.all_gather_into_tensor(whole := bytearray(2 * n), np.full((1, 2), r, np.uint8))
    assert list(whole) == [k for k in range(n) for _ in range(2)]  # a buffer has no shape of its own
    dist.all_gather(every := [zeros((2 + k, 2)) for k in range(n)], np.full((2 + r, 2), float(r)))  # uneven
    assert [each.max() for each in every] == list(range(n))


def splits_of_any_kind(r, n):
    """all_to_all_single takes splits as torch does: lists, tuples, arrays, torch tensors."""
    for kind in (list, tuple, np.array):
        for single in (dist.all_to_all_single, lambda *a: dist.group.WORLD.alltoall_base(*a).wait()):
            sent, got = kind([(r + k) % 3 for k in range(n)]), kind([(r + k) % 3 for k in range(n)])
            out = np.zeros((int(sum(got)), 2))
            single(out, np.full((int(sum(sent)), 2), float(r)), got, sent)
            assert out[:, 0].tolist() == [k for k in range(n) for _ in range((r + k) % 3)]
        whole = np.zeros(n)
        dist.all_to_all_single(whole, np.full(n, float(r)), kind([]), kind([]))
        assert whole.tolist() == list(range(n))
