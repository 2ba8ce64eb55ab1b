"""Random programs: all ranks draw the same calls from a seed, with dtypes, shapes, layouts, roots and groups of any kind.

Only for the long tests, with torch beside ours: nothing of them is stored.
"""

import random

from arrays import torch
from inputs import FLOATS, INTEGERS, TAKEN, bits, mixed, with_one_nan

CALLS = 250


def shape_of(chance):
    return tuple(chance.choice((0, 1, 1, 2, 3, 5)) for _ in range(chance.randrange(4)))


def made(chance, name, shape, rank):
    """Elements of any bits; without gaps, since gloo takes no others, at times inside of more memory."""
    count = torch.Size(shape).numel()
    offset = chance.choice((0, 0, 3))
    octets = bits(name, max(count + offset, 1), rank + chance.randrange(50))
    return octets[offset:offset + count].clone().reshape(shape) if offset == 0 else octets[offset:offset + count].reshape(shape)


def reducible(chance, name, shape, rank, op):
    count = max(torch.Size(shape).numel(), 1)
    if name in FLOATS and op in ("SUM", "PRODUCT"):
        return mixed(name, rank).repeat(count // 8 + 1)[:torch.Size(shape).numel()].reshape(shape)
    if name in FLOATS:
        return (torch.arange(torch.Size(shape).numel()) % 7 - 3 + rank).to(getattr(torch, name)).reshape(shape)
    return made(chance, name, shape, rank)


def groups_of(at):
    every = list(range(at.size))
    lists = {"world": every, "first": every[:1], "last": every[-1:], "ends": sorted({0, at.size - 1}),
             "rest": every[1:] or every}
    return {name: (at.dist.new_group(ranks), ranks) for name, ranks in lists.items()}


def draw(at, chance, groups):
    """A name, and a function that returns what shall be equal; None for a rank that is not in the group."""
    d = at.dist
    group, ranks = groups[chance.choice(sorted(groups))]
    n, root = len(ranks), chance.choice(ranks)
    kind = chance.choice(("all_reduce", "reduce", "broadcast", "all_gather", "all_gather_single", "gather", "scatter",
                          "reduce_scatter", "reduce_scatter_single", "all_to_all_single", "all_to_all", "objects", "ring"))
    op = chance.choice(("SUM", "PRODUCT", "MIN", "MAX") + ("BAND", "BOR", "BXOR") * chance.randrange(2))
    reduces = kind in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_single")
    name = chance.choice(INTEGERS if op.startswith("B") else FLOATS + INTEGERS) if reduces else chance.choice(TAKEN)
    shape, later = shape_of(chance), chance.random() < 0.3
    inner, seed = shape[1:], chance.random()

    def own(rank, extents=shape):
        return (reducible if reduces else made)(random.Random(seed), name, extents, rank, *(op,) * reduces)

    def empty(extents=shape):
        return torch.zeros(extents, dtype=getattr(torch, name))

    def ended(work, *results):
        if later and work is not None:
            work.wait()
        kept = [with_one_nan(each) if reduces and each.is_floating_point() else each for each in results]
        return kept

    def call():
        if at.rank not in ranks:
            return None
        more = {"group": group, "async_op": later}
        x, mine = own(at.rank), ranks.index(at.rank)
        if kind == "all_reduce":
            return ended(d.all_reduce(x, at.op(op), **more), x)
        if kind == "reduce":
            work = d.reduce(x, root, at.op(op), **more)
            return ended(work, x) if at.rank == root else ended(work)
        if kind == "broadcast":
            return ended(d.broadcast(x, root, **more), x)
        if kind == "all_gather":
            return ended(d.all_gather(out := [empty() for _ in ranks], x, **more), *out)
        if kind == "gather":
            out = [empty() for _ in ranks] if at.rank == root else None
            return ended(d.gather(x, out, root, **more), *(out or []))
        if kind == "scatter":
            parts = [own(r + 9) for r in ranks] if at.rank == root else None
            return ended(d.scatter(out := empty(), parts, root, **more), out)
        if kind == "reduce_scatter":
            return ended(d.reduce_scatter(out := empty(), [own(at.rank + 0 * r) for r in ranks], at.op(op), **more), out)
        if kind in ("all_gather_single", "reduce_scatter_single"):
            rows = shape[0] if shape else 1
            if kind == "all_gather_single":
                return ended(d.all_gather_single(out := empty((rows * n, *inner)), own(at.rank, (rows, *inner)), **more), out)
            whole = own(at.rank, (rows * n, *inner))
            return ended(d.reduce_scatter_single(out := empty((rows, *inner)), whole, at.op(op), **more), out)
        if kind == "all_to_all_single":
            chosen = random.Random(seed)
            splits = [[chosen.randrange(4) for _ in ranks] for _ in ranks]
            come, go = [row[mine] for row in splits], splits[mine]
            out = empty((sum(come), *inner))
            return ended(d.all_to_all_single(out, own(at.rank, (sum(go), *inner)), come, go, **more), out)
        if kind == "all_to_all":
            return ended(d.all_to_all(out := [empty() for _ in ranks], [own(at.rank + r) for r in ranks], **more), *out)
        if kind == "objects":
            d.all_gather_object(out := [None] * n, {"rank": at.rank, "tensor": x, "more": [1.5, "x" * int(seed * 3000)]}, group)
            return out
        if n == 1:
            return None
        works = [d.isend(x, ranks[(mine + 1) % n], group=group), d.irecv(out := empty(), ranks[(mine - 1) % n], group=group)]
        return [work.wait() for work in works], out

    return f"{kind}/{name}/{list(shape)}/{op if reduces else root}", call


def random_calls(at, step):
    chance, groups = random.Random(at.seed), groups_of(at)
    for number in range(CALLS):
        name, call = draw(at, chance, groups)
        step(f"{number}/{name}", call)


PROGRAMS = [random_calls]
