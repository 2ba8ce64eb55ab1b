"""What a Work and its future answer."""

import datetime
import threading

from arrays import torch
from inputs import whole


def starts(at):
    """By name: a call with async_op."""
    d, n = at.dist, at.size
    yield "all_reduce", lambda: d.all_reduce(whole(at.rank, 3), async_op=True)
    yield "broadcast", lambda: d.broadcast(whole(at.rank, 3), 0, async_op=True)
    yield "reduce", lambda: d.reduce(whole(0, 3) * 0, 0, async_op=True)
    yield "all_gather", lambda: d.all_gather([torch.zeros(3) for _ in range(n)], whole(at.rank, 3), async_op=True)
    yield "all_gather_into_tensor", lambda: d.all_gather_into_tensor(torch.zeros(3 * n), whole(at.rank, 3), async_op=True)
    yield "gather", lambda: d.gather(whole(at.rank, 3), [torch.zeros(3) for _ in range(n)] if at.rank == 0 else None,
                                     async_op=True)
    yield "scatter", lambda: d.scatter(torch.zeros(3), [whole(r, 3) for r in range(n)] if at.rank == 0 else None,
                                       async_op=True)
    yield "reduce_scatter", lambda: d.reduce_scatter(torch.zeros(3), [whole(r, 3) for r in range(n)], async_op=True)
    yield "reduce_scatter_tensor", lambda: d.reduce_scatter_tensor(torch.zeros(3), whole(at.rank, 3 * n), async_op=True)
    yield "all_to_all_single", lambda: d.all_to_all_single(torch.zeros(n), whole(at.rank, n), async_op=True)
    yield "all_to_all", lambda: d.all_to_all([torch.zeros(2) for _ in range(n)], [whole(at.rank + r, 2) for r in range(n)],
                                             async_op=True)
    yield "barrier", lambda: d.barrier(async_op=True)


def answers(at, step):
    for name, start in starts(at):
        work = step(f"{name}/start", start)
        step(f"{name}/wait", lambda: work.wait())
        step(f"{name}/again", lambda: work.wait(datetime.timedelta(seconds=20)))
        reduce_scatter = name.startswith("reduce_scatter")  # gloo's Work of it knows neither its end nor its result
        result = [whole(at.rank, 3) * at.size if name == "reduce_scatter" else sum(
            whole(r, 3 * at.size)[3 * at.rank:][:3] for r in range(at.size))]
        blocks = [torch.cat([whole(r, 3) for r in range(at.size)])]  # gloo's future has them one by one
        known = {"known": result} if reduce_scatter else {"known": blocks} if name == "all_gather_into_tensor" else {}
        step(f"{name}/ended", lambda: (work.is_completed(), work.is_success(), work.exception()),
             **{"known": [True, True, None]} if reduce_scatter else {})
        step(f"{name}/kind", lambda: isinstance(work, at.dist.Work))
        step(f"{name}/synchronize", lambda: work.synchronize())
        step(f"{name}/future", lambda: start().get_future().wait(), **known)
        step(f"{name}/result", lambda: (again := start()).wait() and again.result(), **known)


def futures(at, step):
    def begun():
        return at.dist.all_reduce(torch.ones(2), async_op=True).get_future()

    future = begun()
    step("wait", lambda: future.wait())
    step("done", lambda: future.done())
    step("value", lambda: future.value())
    step("then", lambda: begun().then(lambda done: done.value()[0] + 1).wait())
    step("then_then", lambda: begun().then(lambda done: done.wait()[0] + 1).then(lambda done: done.value() * 3).wait())
    step("callback", lambda: heard(begun()))
    step("wait_all", lambda: torch.futures.wait_all([begun(), begun()]))
    step("collect_all", lambda: [each.value() for each in torch.futures.collect_all([begun(), begun()]).wait()])
    step("raises", lambda: first_line(begun().then(lambda done: 1 / 0)))
    step("raises_value_error", lambda: first_line(begun().then(lambda done: int("x"))))
    step("p2p", lambda: None if at.size == 1 or at.rank > 1 else [
        work.wait() for work in (at.dist.isend(torch.ones(1), 1 - at.rank), at.dist.irecv(torch.ones(1), 1 - at.rank))])


def heard(future):
    """What a callback is given; it may be called after wait returns."""
    said, called = [], threading.Event()
    future.add_done_callback(lambda done: (said.append(done.value()), called.set()))
    return called.wait(20), said


def first_line(future):
    """Of the error; in the rest stand places of files."""
    try:
        return future.wait()
    except RuntimeError as problem:
        return str(problem).splitlines()[0]


def overlapping(at, step, d):
    """Several under way at once."""
    tensors = [whole(at.rank + k, 2 + k) for k in range(6)]
    works = step("start", lambda: [d.all_reduce(t, async_op=True) for t in tensors])
    step("in_another_order", lambda: [work.wait() for work in reversed(works)], *tensors)
    mixed = step("mixed", lambda: [d.all_reduce(tensors[0], async_op=True), d.broadcast(tensors[1], 0, async_op=True),
                                   d.barrier(async_op=True), d.all_reduce(tensors[2], d.ReduceOp.MAX, async_op=True)])
    step("mixed_wait", lambda: [work.wait() for work in mixed], *tensors)
    many = [torch.tensor([float(at.rank + k)]) for k in range(40)]
    step("many", lambda: [work.wait() for work in [d.all_reduce(t, async_op=True) for t in many]], *many)


def managers(at, step, d):
    xs = [whole(at.rank, 2), whole(at.rank, 3)]

    def coalesced(**options):
        with d._coalescing_manager(**options) as manager:
            for x in xs:
                d.all_reduce(x)
        return manager and type(manager).__name__

    step("all_reduce", coalesced, *xs)
    outs = [torch.zeros(2 * at.size), torch.zeros(3 * at.size)]

    def gathers():
        with d._coalescing_manager(async_ops=True) as manager:
            for out, x in zip(outs, xs):
                d.all_gather_into_tensor(out, x)
        return manager.wait()

    step("all_gather", gathers, *outs)


def options(at, step):
    """Structs of options, and methods of a group that take them."""
    d, pg = at.dist, at.dist.group.WORLD
    for name in ("AllreduceOptions", "BroadcastOptions", "ReduceOptions", "GatherOptions", "ScatterOptions",
                 "ReduceScatterOptions", "BarrierOptions", "AllToAllOptions", "AllreduceCoalescedOptions"):
        def fields(name=name):
            made = getattr(d, name)()
            kept = {}
            for field in sorted(set(dir(made))):
                if not field.startswith("_"):
                    value = getattr(made, field)
                    kept[field] = value if isinstance(value, (int, bool, datetime.timedelta, list, tuple, type(None))) else None
            return kept
        step(f"fields/{name}", fields)
    chosen = d.AllreduceOptions()
    chosen.reduceOp = d.ReduceOp.MAX
    step("allreduce", lambda: pg.allreduce([x := whole(at.rank, 3)], chosen).wait() and x)
    rooted = d.BroadcastOptions()
    rooted.rootRank, rooted.rootTensor = at.size - 1, 0
    step("broadcast", lambda: pg.broadcast([x := whole(at.rank, 3)], rooted).wait() and x)
    step("ranks", lambda: (pg.rank(), pg.size(), d.get_rank(pg), d.get_world_size(pg), d.get_backend(pg)))
    if at.size > 1 and at.rank < 2:
        step("send", lambda: pg.send([whole(0, 2)], 1, 9).wait() if at.rank == 0 else pg.recv([x := torch.zeros(2)], 0, 9).wait()
             and x)
        step("recv_anysource", lambda: pg.send([whole(0, 2)], 1, 9).wait() if at.rank == 0 else
             pg.recv_anysource([x := torch.zeros(2)], 9).wait() and x)


PROGRAMS = [answers, futures, overlapping, managers, options]
