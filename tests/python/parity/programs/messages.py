"""From rank to rank: dtypes, tags, orders, forms of calling."""

from arrays import torch
from inputs import LAYOUTS, TAKEN, bits, whole

# gloo moves the bytes of whatever has some.
ODD = ["int16", "uint16", "uint32", "uint64", "complex32", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
       "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2", "bits8", "bits16", "bits1x8",
       "bits2x4", "bits4x2"]


def octets(tensor):
    return tensor.view(torch.uint8)


def hand_over(at, tensor, room, tag=0):
    """From rank 0 to the last one; what it has then, and the answer of recv."""
    if at.size == 1:
        return None
    if at.rank == 0:
        return at.dist.send(tensor, at.size - 1, tag=tag)
    if at.rank == at.size - 1:
        return at.dist.recv(room, 0, tag=tag), octets(room) if room.dim() == 1 and room.is_contiguous() else room
    return None


def element_types(at, step):
    for name in TAKEN + ODD:
        step(f"send/{name}", lambda: hand_over(at, bits(name, 12), bits(name, 12, 5)))
    for name in ODD:
        step(f"isend/{name}", lambda: both_ways(at, bits(name, 12, at.rank), bits(name, 12, 5)))


def both_ways(at, tensor, room):
    """Between ranks 0 and 1, at once."""
    if at.size == 1 or at.rank > 1:
        return None
    works = [at.dist.irecv(room, 1 - at.rank), at.dist.isend(tensor, 1 - at.rank)]
    return [work.wait() for work in works], octets(room)


def layouts(at, step):
    for name, make in LAYOUTS.items():
        last = at.size > 1 and at.rank == at.size - 1
        step(f"sent/{name}", lambda: hand_over(at, make(3), torch.zeros(make(0).shape)),
             known=[0, make(3)] if last and make(0).dim() != 1 else [0, octets(make(3).contiguous())] if last else None)
        step(f"received/{name}", lambda: hand_over(at, make(3).contiguous(), room := make(4)) and room if last else
             hand_over(at, make(3).contiguous(), make(4)), known=make(3) if last else None)


def tags(at, step):
    """Messages with other tags overtake; those with one do not."""
    if at.size == 1:
        return
    d, far = at.dist, at.size - 1
    for first, second in ((1, 2), (5, 0), (0, 2**31 - 1), (7, 7)):
        def exchange(first=first, second=second):
            if at.rank == 0:
                for work in [d.isend(torch.tensor([1.0]), far, tag=first), d.isend(torch.tensor([2.0]), far, tag=second)]:
                    work.wait()
            elif at.rank == far:
                a, b = torch.zeros(1), torch.zeros(1)
                works = [d.irecv(b, 0, tag=second), d.irecv(a, 0, tag=first)]
                return [work.wait() for work in reversed(works)], a, b
            return None
        step(f"{first}_{second}", exchange)
    step("many", lambda: [work.wait() for work in (
        [d.isend(torch.tensor([number]), far, tag=number) for number in range(20)] if at.rank == 0 else
        [d.irecv(torch.zeros(1, dtype=torch.int64), 0, tag=number) for number in reversed(range(20))] if at.rank == far
        else [])])


def sources(at, step, d):
    """recv from anybody, and what it answers."""
    def from_anybody():
        if at.rank > 0:
            return d.send(torch.tensor([float(at.rank)]), 0)
        seen = []
        for _ in range(at.size - 1):
            source = d.recv(x := torch.zeros(1))
            seen.append((source, source == x.item()))
        return sorted(seen)

    def in_turn():
        if at.rank > 0:
            return d.send(torch.tensor([float(at.rank)]), 0)
        return [(d.recv(x := torch.zeros(1), r), x) for r in range(1, at.size)]

    def source_rank():
        if at.size == 1 or at.rank > 1:
            return None
        if at.rank == 1:
            return d.isend(torch.ones(1), 0).wait()
        work = d.irecv(torch.zeros(1), 1)
        return work.wait(), work._source_rank()

    step("anybody", from_anybody)
    d.barrier()  # so that none takes a message of the next step
    step("in_turn", in_turn)
    step("source_rank", source_rank)
    step("keyword", lambda: d.recv(tensor=torch.zeros(1), src=1) if at.rank == 0 and at.size > 1 else
         d.send(tensor=torch.ones(1), dst=0) if at.rank == 1 else None)
    step("group_ranks", lambda: d.recv(torch.zeros(1), group_src=1) if at.rank == 0 and at.size > 1 else
         d.send(torch.ones(1), group_dst=0) if at.rank == 1 else None)
    step("unsized", lambda: hand_over(at, torch.zeros(0), torch.zeros(0)))
    step("scalar", lambda: hand_over(at, torch.tensor(3.0), torch.tensor(4.0)))
    step("another_shape", lambda: hand_over(at, whole(1, 2, 3), torch.zeros(3, 2)))


def batches(at, step, d, n):
    def all_pairs(count, dtype):
        others = [r for r in range(n) if r != at.rank]
        out = {r: [torch.zeros(2 + k, dtype=dtype) for k in range(count)] for r in others}
        ops = [d.P2POp(d.isend, whole(at.rank + k, 2 + k, dtype=dtype), r) for r in others for k in range(count)]
        ops += [d.P2POp(d.irecv, room, r) for r in others for room in out[r]]
        return [work.wait() for work in d.batch_isend_irecv(ops)] if ops else [], out

    for count in (1, 3):
        for dtype in (torch.float32, torch.int64, torch.bfloat16):
            step(f"{count}/{dtype}", lambda: all_pairs(count, dtype))
    step("op", lambda: (lambda op: (op.op is d.irecv, op.peer, op.group_peer, op.tag, op.tensor))(
        d.P2POp(d.irecv, torch.zeros(2), n - 1, tag=3)))
    step("op_group_peer", lambda: (lambda op: (op.peer, op.group_peer))(d.P2POp(d.isend, torch.zeros(2), group_peer=0)))
    step("halo", lambda: halo(at))
    step("tree", lambda: tree(at))


def halo(at):
    """Edges of a divided line."""
    d, line = at.dist, whole(at.rank, 6)
    if at.size == 1:
        return line
    left, right = (at.rank - 1) % at.size, (at.rank + 1) % at.size
    ops = [d.P2POp(d.isend, line[4:5], right, tag=1), d.P2POp(d.isend, line[1:2], left, tag=2),
           d.P2POp(d.irecv, line[0:1], left, tag=1), d.P2POp(d.irecv, line[5:6], right, tag=2)]
    for work in d.batch_isend_irecv(ops):
        work.wait()
    return line


def tree(at):
    """A broadcast by doubling."""
    x, distance = torch.tensor([5.0 if at.rank == 0 else 0.0]), 1
    while distance < at.size:
        if at.rank < distance and at.rank + distance < at.size:
            at.dist.send(x, at.rank + distance)
        elif distance <= at.rank < 2 * distance:
            at.dist.recv(x, at.rank - distance)
        distance *= 2
    return x


PROGRAMS = [element_types, layouts, tags, sources, batches]
