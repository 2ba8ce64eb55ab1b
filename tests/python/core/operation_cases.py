"""What the ranks of operations_test.py and property_test.py do: each function runs on every rank.

Inputs are whole numbers so small that every order of additions gives the same, so `==` decides.
"""

import math
import sys

import numpy as np
import tutti
from raising import raises
from operation_values import OnlyDlpack, combined, dtype_named, filled, finish, gaps_are_left, same, values
from tutti import ReduceOp


def chosen(world, layouts):
    """This rank's layout, and how many elements it has."""
    layout = layouts[world.rank % len(layouts)]
    return layout, math.prod(layout[0])


def all_reduce(world, dtype, op, layouts, seed, asynchronous):
    layout, count = chosen(world, layouts)
    x, around = filled(count, layout, dtype, values(world.rank, count, dtype, seed))
    finish(world.all_reduce(x, ReduceOp[op], async_op=asynchronous), asynchronous)
    same(x, combined(op, [values(r, count, dtype, seed) for r in range(world.size)], dtype))
    gaps_are_left(x, around)


def reduce(world, dtype, op, layouts, seed, root, asynchronous):
    layout, count = chosen(world, layouts)
    mine = values(world.rank, count, dtype, seed)
    x, _ = filled(count, layout, dtype, mine)
    x.flags.writeable = world.rank == root
    finish(world.reduce(x, root, ReduceOp[op], async_op=asynchronous), asynchronous)
    same(x, combined(op, [values(r, count, dtype, seed) for r in range(world.size)], dtype)
         if world.rank == root else mine)


def scan(world, dtype, op, layouts, seed, exclusive, asynchronous):
    layout, count = chosen(world, layouts)
    mine = values(world.rank, count, dtype, seed)
    x, around = filled(count, layout, dtype, mine)
    ranks = world.rank + (0 if exclusive else 1)
    x.flags.writeable = ranks > 0
    finish(world.scan(x, ReduceOp[op], exclusive=exclusive, async_op=asynchronous), asynchronous)
    x.flags.writeable = True
    same(x, combined(op, [values(r, count, dtype, seed) for r in range(ranks)], dtype) if ranks > 0 else mine)
    gaps_are_left(x, around)


def broadcast(world, dtype, layouts, seed, root, asynchronous):
    layout, count = chosen(world, layouts)
    x, around = filled(count, layout, dtype, values(world.rank, count, dtype, seed))
    x.flags.writeable = world.rank != root
    finish(world.broadcast(x, root, async_op=asynchronous), asynchronous)
    x.flags.writeable = True
    same(x, values(root, count, dtype, seed))
    gaps_are_left(x, around)


def all_same(arrays, expected):
    for array, wanted in zip(arrays, expected, strict=True):
        same(array, wanted)


def uneven(counts, rank):
    return counts[rank % len(counts)]


def all_gather(world, dtype, counts, layout, seed, listed, asynchronous):
    sizes = [uneven(counts, r) for r in range(world.size)]
    mine = values(world.rank, sizes[world.rank], dtype, seed)
    source, _ = filled(mine.size, layout, dtype, mine)
    source.flags.writeable = False
    everything = [values(r, n, dtype, seed) for r, n in enumerate(sizes)]
    if listed:
        outputs = [filled(n, layout, dtype)[0] for n in sizes]
        finish(world.all_gather_list(outputs, source, async_op=asynchronous), asynchronous)
        return all_same(outputs, everything)
    output = np.zeros(sum(sizes), dtype_named(dtype))
    finish(world.all_gather(output, source, counts=sizes if len(set(counts)) > 1 else None, async_op=asynchronous), asynchronous)
    return same(output, np.concatenate(everything))


def sizes_of(world, count, seed, root):
    """Blocks of a gather or scatter, unlike for some seeds, and the counts that this rank gives: a list of its own alone
    on every second rank but the root."""
    if seed % 2 == 0:
        return [count] * world.size, None
    sizes = [(count + r * seed) % (count + 2) for r in range(world.size)]
    return sizes, sizes if world.rank == root or world.rank % 2 == 0 else sizes[world.rank:world.rank + 1]


def gather(world, dtype, count, layout, seed, root, listed, asynchronous):
    sizes, counts = sizes_of(world, count, seed, root)
    mine = values(world.rank, sizes[world.rank], dtype, seed)
    source, _ = filled(mine.size, layout, dtype, mine)
    everything = [values(r, n, dtype, seed) for r, n in enumerate(sizes)]
    at_root = world.rank == root
    if listed:
        outputs = [filled(n, layout, dtype)[0] for n in sizes] if at_root else None
        finish(world.gather_list(outputs, source, root, counts=counts, async_op=asynchronous), asynchronous)
        return all_same(outputs or [], everything if at_root else [])
    output = np.zeros(sum(sizes), dtype_named(dtype)) if at_root else None
    finish(world.gather(output, source, root, counts=counts, async_op=asynchronous), asynchronous)
    return same(output, np.concatenate(everything)) if at_root else None


def scatter(world, dtype, count, layout, seed, root, listed, asynchronous):
    sizes, counts = sizes_of(world, count, seed, root)
    output, around = filled(sizes[world.rank], layout, dtype)
    parts = [values(100 + r, n, dtype, seed) for r, n in enumerate(sizes)]
    at_root = world.rank == root
    if listed:
        inputs = [filled(part.size, layout, dtype, part)[0] for part in parts] if at_root else None
        finish(world.scatter_list(output, inputs, root, counts=counts, async_op=asynchronous), asynchronous)
    else:
        source = np.concatenate(parts) if at_root else None
        finish(world.scatter(output, source, root, counts=counts, async_op=asynchronous), asynchronous)
    same(output, parts[world.rank])
    gaps_are_left(output, around)


def reduce_scatter(world, dtype, op, counts, layout, seed, listed, asynchronous):
    sizes = [uneven(counts, r) for r in range(world.size)]
    blocks = [[values(100 * r + b, n, dtype, seed) for b, n in enumerate(sizes)] for r in range(world.size)]
    output, _ = filled(sizes[world.rank], layout, dtype)
    if listed:
        inputs = [filled(block.size, layout, dtype, block)[0] for block in blocks[world.rank]]
        finish(world.reduce_scatter_list(output, inputs, ReduceOp[op], async_op=asynchronous), asynchronous)
    else:
        finish(world.reduce_scatter(output, np.concatenate(blocks[world.rank]), ReduceOp[op],
                                    counts=sizes if len(set(counts)) > 1 else None, async_op=asynchronous), asynchronous)
    same(output, combined(op, [its[world.rank] for its in blocks], dtype))


def all_to_all(world, dtype, table, layout, seed, listed, asynchronous):
    """table[i][j]: elements from rank i to rank j; square, at least as large as the world."""
    me = world.rank
    there = [table[me][r] for r in range(world.size)]
    here = [table[r][me] for r in range(world.size)]

    def block(source, target):
        return values(100 * source + target, table[source][target], dtype, seed)

    sent = [block(me, r) for r in range(world.size)]
    expected = [block(r, me) for r in range(world.size)]
    if listed:
        inputs = [filled(part.size, layout, dtype, part)[0] for part in sent]
        outputs = [filled(n, layout, dtype)[0] for n in here]
        finish(world.all_to_all_list(outputs, inputs, async_op=asynchronous), asynchronous)
        return all_same(outputs, expected)
    output = np.zeros(sum(here), dtype_named(dtype))
    finish(world.all_to_all(output, np.concatenate(sent), output_splits=here, input_splits=there, async_op=asynchronous),
           asynchronous)
    return same(output, np.concatenate(expected))


def messages(world, dtype, sends, layout, seed):
    """sends: (from, to, tag, count); all at once, in an order of each rank's own."""
    mine = [(i, send) for i, send in enumerate(sends)
            if world.rank in (send[0] % world.size, send[1] % world.size)]
    if not mine:
        return
    operations = []
    waiting = []
    for i, (source, target, tag, count) in mine:
        source, target = source % world.size, target % world.size
        content = values(1000 + i, count, dtype, seed)
        if source == world.rank:
            operations.append(("send", filled(count, layout, dtype, content)[0], target, tag))
            waiting.append(None)
        if target == world.rank:
            into, _ = filled(count, layout, dtype)
            operations.append(("recv", into, source, tag))
            waiting.append((into, content, source))
    works = world.batch_isend_irecv(operations)
    for work, wanted in zip(works, waiting, strict=True):
        work.wait()
        if wanted is None:
            assert work.source_rank == -1 and work.result == []
            continue
        into, content, source = wanted
        assert work.source_rank == source and work.result[0] is into
        same(into, content)


def groups(world, members, seed):
    """A group of some ranks in some order, told twice: as a list, and by colour and key."""
    order = [member for member in dict.fromkeys(m % world.size for m in members)]
    group = world.new_group(order, name="part")
    mine = order.index(world.rank) if world.rank in order else None
    twin = world.split(None if mine is None else 7, mine or 0)
    assert (group is None) == (twin is None) == (mine is None)
    assert group is None or group.name == "part"
    for one in (group, twin):
        if one is None:
            continue
        assert (one.rank, one.size, one.ranks) == (mine, len(order), order)
        assert [one.group_rank(r) for r in order] == list(range(len(order)))
        assert [one.global_rank(r) for r in range(one.size)] == order
        with one:
            all_reduce(one, "int32", "SUM", [((5,), (1,), (0,))], seed, False)
        assert one.closed


def factors(world, dtype):
    """PREMUL_SUM with a number and with a factor for each element."""
    kind = dtype_named(dtype)
    x = np.ones(4, kind)
    world.all_reduce(x, ReduceOp.PREMUL_SUM, factor=2)
    same(x, np.full(4, 2 * world.size).astype(kind))
    each = np.arange(4).astype(kind)
    x = np.ones(4, kind)
    work = world.all_reduce(x, ReduceOp.PREMUL_SUM, factor=each, async_op=True)
    work.wait()
    same(x, (np.arange(4) * world.size).astype(kind))
    out = np.zeros(1, kind)
    world.reduce_scatter(out, np.ones(world.size, kind), ReduceOp.PREMUL_SUM, factor=3.0)
    same(out, np.full(1, 3 * world.size).astype(kind))


def average(world, dtype):
    kind = dtype_named(dtype)
    x = np.full(3, world.rank * 2.0).astype(kind)
    world.all_reduce(x, ReduceOp.AVG)
    same(x, np.full(3, world.size - 1.0).astype(kind))


def point_to_point(world):
    """A ring, to oneself, from anybody, with tags out of order."""
    me, size = world.rank, world.size
    x = np.full(3, float(me))
    y = np.zeros(3)
    sending = world.isend(x, (me + 1) % size, tag=3)
    assert world.recv(y, (me - 1) % size, tag=3) == (me - 1) % size
    sending.wait()
    assert (y == (me - 1) % size).all()
    if me == 0:
        heard = set()
        for _ in range(size - 1):
            sender = world.recv(y, tag=9)
            assert (y == sender).all()
            heard.add(sender)
        assert heard == set(range(1, size))
    else:
        world.send(x, 0, tag=9)
    if size > 1 and me < 2:
        first, second = np.zeros(1), np.zeros(1)
        if me == 0:
            world.send(np.array([1.0]), 1, tag=1)
            world.send(np.array([2.0]), 1, tag=2)
        else:
            world.recv(second, 0, tag=2)
            world.recv(first, 0, tag=1)
            assert (first[0], second[0]) == (1.0, 2.0)
    world.barrier()


def kinds_of_memory(world):
    """Every kind of array, as input and as output of one operation."""
    import array
    torch = sys.modules.get("torch")

    def made(kind, numbers):
        """Such an array, and one of NumPy's over the same memory."""
        flat, inside = np.array(numbers, np.float32), array.array("f", numbers)
        strided, octets = np.repeat(flat, 2)[::2], bytearray(flat.tobytes())
        if kind in ("torch", "parameter", "shared"):
            tensor = torch.from_numpy(flat)
            tensor = {"torch": tensor, "parameter": torch.nn.Parameter(tensor), "shared": tensor.clone().share_memory_()}[kind]
            return tensor, tensor.detach().numpy()
        return {"numpy": (flat, flat), "strided": (strided, strided), "dlpack": (OnlyDlpack(flat), flat),
                "array": (inside, np.frombuffer(inside, np.float32)),
                "memoryview": (memoryview(octets).cast("f"), np.frombuffer(octets, np.float32))}[kind]

    kinds = ["numpy", "strided", "dlpack", "array", "memoryview"] + (["torch", "parameter", "shared"] if torch else [])
    for source in kinds:
        for target in kinds:
            given, _ = made(source, [world.rank, 1.0])
            output, seen = made(target, [0.0] * 2 * world.size)
            world.all_gather(output, given)
            assert seen.tolist() == [x for r in range(world.size) for x in (r, 1.0)], (source, target)
    for kind in kinds:
        given, seen = made(kind, [1.0, world.rank])
        work = world.all_reduce(given, async_op=True)
        work.wait()
        assert seen.tolist() == [world.size, sum(range(world.size))], kind
        assert work.result[0] is given
    letters = bytearray(4 * world.size)
    world.all_gather(letters, b"%4d" % world.rank)
    assert letters == b"".join(b"%4d" % r for r in range(world.size))
    letters = bytearray(b"ab" if world.rank else b"xy")
    world.broadcast(letters, world.size - 1)
    assert letters == (b"ab" if world.size > 1 else b"xy")


def kinds_of_memory_and_of_torch(world):
    import torch  # noqa: F401
    kinds_of_memory(world)


def wrong_arguments(world):
    """The call is refused before anything is sent, and the group goes on."""
    x = np.zeros(3)
    size = world.size
    refused = [
        (lambda: world.broadcast(x, size), "root"),
        (lambda: world.all_gather_list([x] * (size + 1), x), "list of"),
        (lambda: world.all_gather(np.zeros(3 * size), x, counts=[3] * (size + 1)), "counts"),
        (lambda: world.scatter(x, np.zeros(3 * size + 1), world.rank), "elements"),
        (lambda: world.reduce_scatter(x, np.zeros(3 * size + 1)), "elements"),
        (lambda: world.all_to_all(np.zeros(4), x), "elements"),
        (lambda: world.all_to_all(x, np.zeros(3), output_splits=[3] + [0] * (size - 1)), "one side only"),
        (lambda: world.recv(x, size), "sender"),
        (lambda: world.barrier(timeout=-1), "timeout"),
        (lambda: world.new_group([size]), "not a rank"),
        (lambda: world.new_group([0, 0]), "twice"),
        (lambda: world.new_subgroups(size + 1), "divided"),
        (lambda: world.global_rank(size), "rank"),
        (lambda: world.all_reduce(np.broadcast_to(np.zeros(1), 3)), "read-only"),
        (lambda: world.all_gather_list(np.zeros((size, 3)), x), "must be a list"),
        (lambda: world.batch_isend_irecv([("put", x, 0, 0)]), "each operation"),
        (lambda: world.barrier(timeout="soon"), "timeout"),
        (lambda: world.all_gather([0.0] * 3 * size, x), "the output, a list, is no array"),
    ]
    for call, why in refused:
        problem = raises((tutti.InvalidArgument, TypeError), why, call)
        assert isinstance(problem, TypeError) or problem.code == "invalid_argument", problem
    if size > 1 and world.rank == 0:
        raises(ValueError, "", lambda: world.recv(x, 1, timeout=0))
    world.all_reduce(x)


def coalesced(world, dtype, counts, layout, seed, asynchronous):
    """Several arrays in one operation: as a call for each."""
    size, me = world.size, world.rank
    everybody = range(size)

    def drawn(rank, which, count):
        return values(100 * which + rank, count, dtype, seed)

    def each(value):
        return [value(t, n) for t, n in enumerate(counts)]

    def own(t, n):
        return filled(n, layout, dtype, drawn(me, t, n))[0]

    finish(world.all_reduce_coalesced(arrays := each(own), async_op=asynchronous), asynchronous)
    all_same(arrays, each(lambda t, n: combined("SUM", [drawn(r, t, n) for r in everybody], dtype)))
    finish(world.broadcast_coalesced(arrays := tuple(each(own)), size - 1, async_op=asynchronous), asynchronous)
    all_same(arrays, each(lambda t, n: drawn(size - 1, t, n)))

    inputs, outputs = each(own), [np.zeros(n * size, dtype_named(dtype)) for n in counts]
    finish(world.all_gather_coalesced(outputs, inputs, async_op=asynchronous), asynchronous)
    all_same(outputs, each(lambda t, n: np.concatenate([drawn(r, t, n) for r in everybody])))
    outputs = [filled(n, layout, dtype)[0] for _ in everybody for n in counts]
    finish(world.all_gather_coalesced(outputs, inputs, async_op=asynchronous), asynchronous)
    all_same(outputs, [drawn(r, t, n) for r in everybody for t, n in enumerate(counts)])

    inputs = each(lambda t, n: np.concatenate([drawn(10 * me + b, t, n) for b in everybody]))
    outputs = [filled(n, layout, dtype)[0] for n in counts]
    finish(world.reduce_scatter_coalesced(outputs, inputs, async_op=asynchronous), asynchronous)
    all_same(outputs, each(lambda t, n: combined("SUM", [drawn(10 * r + me, t, n) for r in everybody], dtype)))


def monitored(world):
    """All come, so nobody is named."""
    for _ in range(3):
        world.monitored_barrier(timeout=20)
        world.monitored_barrier(wait_all_ranks=True)
    world.barrier()
