"""The programs that run under torch.distributed and under tutti.distributed: one function per cell.

A cell gets a `Place` and returns what shall be equal: tensors, objects, or nothing; what it raises is
compared as well. Every rank runs every cell in the same order. Sums and products are exact in any order.
"""

import itertools
import math

from arrays import torch

MOVED = ["uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool",
         "complex64", "complex128", "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"]
OPS = ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG"]


class Place:
    """Where a cell runs: which package, which rank of how many."""

    def __init__(self, dist, rank, size, seed=0, folder=None):
        self.dist, self.rank, self.size, self.seed, self.folder = dist, rank, size, seed, folder
        self.groups = {}

    def values(self, dtype, shape=(5,), of=None, seed=0):
        """What rank `of` (this one) puts in: small whole numbers, other ones on every rank."""
        rank = self.rank if of is None else of
        return cast((torch.arange(math.prod(shape)) + 3 * rank + seed) % 4 + 1, dtype).reshape(shape)

    def powers(self, dtype, shape=(5,), seed=0):
        """Ones and twos, so that products are exact."""
        return cast((torch.arange(math.prod(shape)) + self.rank + seed) % 2 + 1, dtype).reshape(shape)

    def empty(self, dtype, shape=(5,)):
        return cast(torch.full(shape, 99), dtype)

    def inputs(self, dtype, op, shape):
        return self.powers(dtype, shape) if op == "PRODUCT" else self.values(dtype, shape)

    def op(self, name):
        return getattr(self.dist.ReduceOp, name)


def cast(numbers, dtype):
    if dtype == "bool":
        return numbers % 2 == 0
    if dtype.startswith("complex"):
        return torch.complex(numbers.double(), (numbers % 3).double()).to(getattr(torch, dtype))
    return numbers.to(getattr(torch, dtype))


def each_of(name, calls):
    """Cells of the same name, by their families."""
    for family, cell in calls.items():
        yield f"{family}/{name}", cell


def waited(works, *results):
    """What these works answer, and what stands in the results then."""
    return [work.wait() for work in works], *results


def reductions():
    for dtype in MOVED:
        for op in OPS:
            yield from each_of(f"{dtype}/{op}", {
                "all_reduce": lambda at: at.dist.all_reduce(x := at.inputs(dtype, op, (5,)), at.op(op)) or x,
                "reduce": lambda at: at.dist.reduce(
                    x := at.inputs(dtype, op, (5,)), dst := (len(dtype) + len(op)) % at.size, at.op(op)) or (
                        x if at.rank == dst else None),
                "reduce_scatter": lambda at: at.dist.reduce_scatter(
                    out := at.empty(dtype, (3,)), [at.inputs(dtype, op, (3,)) for _ in range(at.size)], at.op(op)) or out,
                "reduce_scatter_single": lambda at: at.dist.reduce_scatter_single(
                    out := at.empty(dtype, (2, 2)), at.inputs(dtype, op, (2 * at.size, 2)), at.op(op)) or out,
            })


def send_recv(at, dtype):
    x, got = at.values(dtype), None
    if at.rank == 0 and at.size > 1:
        at.dist.send(x, at.size - 1, tag=len(dtype))
    elif at.rank == at.size - 1 and at.size > 1:
        got = at.dist.recv(x, 0, tag=len(dtype))
    return x, got


def ring(at, dtype):
    x, y = at.values(dtype), at.empty(dtype)
    if at.size > 1:
        waited([at.dist.isend(x, (at.rank + 1) % at.size), at.dist.irecv(y, (at.rank - 1) % at.size)])
    return x, y


def batch(at, dtype):
    out = [at.empty(dtype) for _ in range(at.size)]
    others = [r for r in range(at.size) if r != at.rank]
    ops = [at.dist.P2POp(at.dist.isend, at.values(dtype, seed=r), r) for r in others]
    ops += [at.dist.P2POp(at.dist.irecv, out[r], r) for r in others]
    waited(at.dist.batch_isend_irecv(ops) if ops else [])
    return out


def splits_of(at):
    """To rank r go (own rank + r) % 3 rows, so from rank r come as many."""
    return [(at.rank + r) % 3 for r in range(at.size)]


def moves():
    for dtype in MOVED:
        def empties(at, dtype=dtype):
            return [at.empty(dtype) for _ in range(at.size)]

        def parts(at, shape=(5,), dtype=dtype):
            return [at.values(dtype, shape, seed=r) for r in range(at.size)]

        yield from each_of(dtype, {
            "broadcast": lambda at: at.dist.broadcast(x := at.values(dtype), len(dtype) % at.size) or x,
            "all_gather": lambda at: at.dist.all_gather(out := empties(at), at.values(dtype)) or out,
            "all_gather_single_cat": lambda at: at.dist.all_gather_single(
                out := at.empty(dtype, (2 * at.size, 3)), at.values(dtype, (2, 3))) or out,
            "all_gather_single_stack": lambda at: at.dist.all_gather_single(
                out := at.empty(dtype, (at.size, 2, 3)), at.values(dtype, (2, 3))) or out,
            "gather": lambda at: at.dist.gather(
                at.values(dtype), out := empties(at) if at.rank == (len(dtype) + 1) % at.size else None,
                (len(dtype) + 1) % at.size) or out,
            "scatter": lambda at: at.dist.scatter(
                out := at.empty(dtype), parts(at) if at.rank == (src := (len(dtype) + 2) % at.size) else None, src) or out,
            "all_to_all_single": lambda at: at.dist.all_to_all_single(
                out := at.empty(dtype, (2 * at.size, 2)), at.values(dtype, (2 * at.size, 2))) or out,
            "all_to_all_single_splits": lambda at: at.dist.all_to_all_single(
                out := at.empty(dtype, (rows := sum(splits_of(at)), 2)), at.values(dtype, (rows, 2)), splits_of(at),
                splits_of(at)) or out,
            "all_to_all_even": lambda at: at.dist.all_to_all(
                out := [at.empty(dtype, (2,)) for _ in range(at.size)], parts(at, (2,))) or out,
            "all_to_all": lambda at: at.dist.all_to_all(
                out := [at.empty(dtype, (at.rank + r + 1,)) for r in range(at.size)],
                [at.values(dtype, (at.rank + r + 1,), seed=r) for r in range(at.size)]) or out,
            "send_recv": lambda at: send_recv(at, dtype),
            "ring": lambda at: ring(at, dtype),
            "batch": lambda at: batch(at, dtype),
        })


def strided(at):
    return torch.arange(24.0).reshape(4, 6).add(at.rank).t()[::2]


def strided_send(at):
    x = strided(at)
    if at.size > 1 and at.rank == 0:
        at.dist.send(x.contiguous(), 1)
    if at.size > 1 and at.rank == 1:
        at.dist.recv(y := torch.zeros(x.shape), 0)
        return y
    return None


def forms():
    """Shapes, strides, ways of calling."""
    shapes = {"scalar": (), "one": (1,), "nothing": (0,), "rows": (3, 4), "no_rows": (0, 3), "large": (40000,)}
    for dtype, (name, shape) in itertools.product(("float32", "int64", "uint8"), shapes.items()):
        def value(at, dtype=dtype, shape=shape, **options):
            return at.values(dtype, shape, **options)

        def empties(at, dtype=dtype, shape=shape):
            return [at.empty(dtype, shape) for _ in range(at.size)]

        yield from each_of(f"{dtype}/{name}", {
            "all_reduce": lambda at: at.dist.all_reduce(x := value(at)) or x,
            "all_reduce_async": lambda at: (
                (work := at.dist.all_reduce(x := value(at), async_op=True)).wait(), work.is_completed(), x),
            "broadcast": lambda at: (at.dist.broadcast(x := value(at), at.size - 1, async_op=True).wait(), x),
            "all_gather": lambda at: (at.dist.all_gather(out := empties(at), value(at), async_op=True).wait(), out),
            "reduce": lambda at: (at.dist.reduce(x := value(at), at.size - 1, async_op=True).wait(),
                                  x if at.rank == at.size - 1 else None)[1],
            "gather": lambda at: at.dist.gather(value(at), out := empties(at) if at.rank == 0 else None) or out,
            "scatter": lambda at: at.dist.scatter(
                out := at.empty(dtype, shape), [value(at, seed=r) for r in range(at.size)] if at.rank == 0 else []) or out,
            "reduce_scatter": lambda at: at.dist.reduce_scatter(
                out := at.empty(dtype, shape), [value(at) for _ in range(at.size)]) or out,
        })

    def all_reduced(at, x):
        at.dist.all_reduce(x)
        return x

    def requires_grad(at):
        x = all_reduced(at, at.values("float32").requires_grad_())
        return x.detach(), x.requires_grad, x.grad_fn is None

    def negative(at):
        x = torch.complex(torch.ones(3), torch.ones(3) * (at.rank + 1)).conj().imag
        at.dist.broadcast(x, 0)
        return x.resolve_neg()

    for name, cell in {
        "strided_all_reduce": lambda at: all_reduced(at, strided(at)),
        "strided_broadcast": lambda at: at.dist.broadcast(x := strided(at), at.size - 1) or x,
        "strided_send": strided_send,
        "requires_grad": requires_grad,
        "conjugate": lambda at: all_reduced(at, at.values("complex64").conj()).resolve_conj(),
        "negative": negative,
        "shared_memory": lambda at: all_reduced(at, at.values("float32").share_memory_()),
        "sparse": lambda at: all_reduced(at, torch.eye(2).to_sparse()).to_dense(),
        "complex_and_its_parts": lambda at: at.dist.all_gather(
            out := [torch.zeros(3, 2) for _ in range(at.size)], at.values("complex64", (3,))) or out,
    }.items():
        yield f"form/{name}", cell


def coalesced():
    for dtype in ("float32", "int32", "float64", "uint8"):
        def values(at, *sizes, dtype=dtype):
            return [at.values(dtype, (n,)) for n in sizes]

        yield from each_of(dtype, {
            "all_reduce_coalesced": lambda at: at.dist.all_reduce_coalesced(xs := values(at, 1, 7, 3)) or xs,
            "all_reduce_coalesced_async": lambda at: (
                future := at.dist.all_reduce_coalesced(xs := values(at, 1, 7, 3), async_op=True)).wait() and (
                    future.done(), xs),
            "all_gather_coalesced": lambda at: at.dist.all_gather_coalesced(
                outs := [[at.empty(dtype, (n,)) for n in (2, 5)] for _ in range(at.size)], values(at, 2, 5)) or outs,
        })

    def manager(at):
        xs = [at.values("float32", (n,)) for n in (1, 7, 3)]
        with at.dist._coalescing_manager():
            for x in xs:
                at.dist.all_reduce(x)
        return xs

    yield "coalescing_manager", manager


def object_list(at, value):
    if at.size > 1 and at.rank == 0:
        at.dist.send_object_list([value, 1], 1)
    if at.size > 1 and at.rank == 1:
        out = [None, None]
        return at.dist.recv_object_list(out, 0), out
    return None


def objects():
    values = {"number": 3, "text": "words", "nothing": None, "list": [1, [2.5, "x"]],
              "dict": {"a": (1, 2), "b": {3}}, "tensor": torch.arange(6).reshape(2, 3),
              "large": torch.arange(100_000), "bytes": b"\0\1" * 10}
    for name, value in values.items():
        yield from each_of(name, {
            "broadcast_object_list": lambda at: at.dist.broadcast_object_list(
                out := [value, at.size] if at.rank == at.size - 1 else [None, None], at.size - 1) or out,
            "all_gather_object": lambda at: at.dist.all_gather_object(out := [None] * at.size, (at.rank, value)) or out,
            "gather_object": lambda at: at.dist.gather_object(
                (at.rank, value), out := [None] * at.size if at.rank == 0 else None) or out,
            "scatter_object_list": lambda at: at.dist.scatter_object_list(
                out := [None], [(r, value) for r in range(at.size)] if at.rank == 0 else None) or out,
            "object_list": lambda at: object_list(at, value),
        })


def works():
    def begun(at):
        return at.dist.all_reduce(at.values("float32"), async_op=True)

    def ended(at):
        work = begun(at)
        work.wait()
        return work

    def future(at):
        made = begun(at).get_future()
        return made.wait(), made.done(), made.value(), made.then(lambda f: f.value()[0] * 2).wait()

    def outcome(at):
        work = ended(at)
        return work.is_completed(), work.is_success(), work.exception(), work.result()

    def self_transfer_order(at):
        x, y = at.values("float32"), at.empty("float32")
        if at.size > 1 and at.rank < 2:
            return waited([at.dist.irecv(y, 1 - at.rank), at.dist.isend(x, 1 - at.rank)], y)
        return None

    def reduce_op_kind(at):
        R = at.dist.ReduceOp
        return ([int(getattr(R, name)) for name in OPS], isinstance(R.SUM, R), R.SUM == R.SUM, R.SUM == R.MAX,
                hash(R.SUM) == hash(R.SUM), R(R.MAX) == R.MAX, str(R.MIN), [at.dist.supports_complex(getattr(R, name))
                                                                         for name in ("SUM", "AVG", "MAX", "BAND")])

    for name, cell in {
        "future": future,
        "broadcast_future": lambda at: at.dist.broadcast(at.values("float32"), 0, async_op=True).get_future().wait(),
        "outcome": outcome,
        "self_transfer_order": self_transfer_order,
        "source_rank_of_a_collective": lambda at: ended(at)._source_rank() and None,
        "reduce_op_kind": reduce_op_kind,
        "reduce_op_deprecated": lambda at: at.dist.all_reduce(x := at.values("float32"), at.dist.reduce_op.SUM) or x,
    }.items():
        yield f"work/{name}", cell
