"""The programs that run under torch.distributed and under tutti.distributed: one function per cell.

A cell gets a `Place` and returns what shall be equal: tensors, objects, or nothing; what it raises is
compared as well. Every rank runs every cell in the same order. Sums and products are exact in any order.
"""

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
        count = 1
        for extent in shape:
            count *= extent
        numbers = (torch.arange(count) + 3 * rank + seed) % 4 + 1
        return cast(numbers, dtype).reshape(shape)

    def powers(self, dtype, shape=(5,), seed=0):
        """Ones and twos, so that products are exact."""
        count = 1
        for extent in shape:
            count *= extent
        return cast((torch.arange(count) + self.rank + seed) % 2 + 1, dtype).reshape(shape)

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


def reductions():
    for dtype in MOVED:
        for op in OPS:
            def all_reduce(at, dtype=dtype, op=op):
                x = at.inputs(dtype, op, (5,))
                at.dist.all_reduce(x, at.op(op))
                return x

            def reduce(at, dtype=dtype, op=op):
                x, dst = at.inputs(dtype, op, (5,)), (len(dtype) + len(op)) % at.size
                at.dist.reduce(x, dst, at.op(op))
                return x if at.rank == dst else None

            def reduce_scatter(at, dtype=dtype, op=op):
                parts = [at.inputs(dtype, op, (3,)) for _ in range(at.size)]
                out = at.empty(dtype, (3,))
                at.dist.reduce_scatter(out, parts, at.op(op))
                return out

            def reduce_scatter_single(at, dtype=dtype, op=op):
                out = at.empty(dtype, (2, 2))
                at.dist.reduce_scatter_single(out, at.inputs(dtype, op, (2 * at.size, 2)), at.op(op))
                return out

            for cell in (all_reduce, reduce, reduce_scatter, reduce_scatter_single):
                yield f"{cell.__name__}/{dtype}/{op}", cell


def moves():
    for dtype in MOVED:
        def broadcast(at, dtype=dtype):
            x = at.values(dtype)
            at.dist.broadcast(x, len(dtype) % at.size)
            return x

        def all_gather(at, dtype=dtype):
            out = [at.empty(dtype) for _ in range(at.size)]
            at.dist.all_gather(out, at.values(dtype))
            return out

        def all_gather_single_cat(at, dtype=dtype):
            out = at.empty(dtype, (2 * at.size, 3))
            at.dist.all_gather_single(out, at.values(dtype, (2, 3)))
            return out

        def all_gather_single_stack(at, dtype=dtype):
            out = at.empty(dtype, (at.size, 2, 3))
            at.dist.all_gather_single(out, at.values(dtype, (2, 3)))
            return out

        def gather(at, dtype=dtype):
            dst = (len(dtype) + 1) % at.size
            out = [at.empty(dtype) for _ in range(at.size)] if at.rank == dst else None
            at.dist.gather(at.values(dtype), out, dst)
            return out

        def scatter(at, dtype=dtype):
            src, out = (len(dtype) + 2) % at.size, at.empty(dtype)
            parts = [at.values(dtype, seed=r) for r in range(at.size)] if at.rank == src else None
            at.dist.scatter(out, parts, src)
            return out

        def all_to_all_single(at, dtype=dtype):
            out = at.empty(dtype, (2 * at.size, 2))
            at.dist.all_to_all_single(out, at.values(dtype, (2 * at.size, 2)))
            return out

        def all_to_all_single_splits(at, dtype=dtype):
            # To rank r go (own rank + r) % 3 rows, so from rank r come as many.
            splits = [(at.rank + r) % 3 for r in range(at.size)]
            out = at.empty(dtype, (sum(splits), 2))
            at.dist.all_to_all_single(out, at.values(dtype, (sum(splits), 2)), splits, splits)
            return out

        def all_to_all_even(at, dtype=dtype):
            out = [at.empty(dtype, (2,)) for _ in range(at.size)]
            at.dist.all_to_all(out, [at.values(dtype, (2,), seed=r) for r in range(at.size)])
            return out

        def all_to_all(at, dtype=dtype):
            out = [at.empty(dtype, (at.rank + r + 1,)) for r in range(at.size)]
            at.dist.all_to_all(out, [at.values(dtype, (at.rank + r + 1,), seed=r) for r in range(at.size)])
            return out

        def send_recv(at, dtype=dtype):
            x, got = at.values(dtype), None
            if at.rank == 0 and at.size > 1:
                at.dist.send(x, at.size - 1, tag=len(dtype))
            elif at.rank == at.size - 1 and at.size > 1:
                got = at.dist.recv(x, 0, tag=len(dtype))
            return x, got

        def ring(at, dtype=dtype):
            x, y = at.values(dtype), at.empty(dtype)
            if at.size > 1:
                works = [at.dist.isend(x, (at.rank + 1) % at.size), at.dist.irecv(y, (at.rank - 1) % at.size)]
                for work in works:
                    work.wait()
            return x, y

        def batch(at, dtype=dtype):
            out = [at.empty(dtype) for _ in range(at.size)]
            others = [r for r in range(at.size) if r != at.rank]
            ops = [at.dist.P2POp(at.dist.isend, at.values(dtype, seed=r), r) for r in others]
            ops += [at.dist.P2POp(at.dist.irecv, out[r], r) for r in others]
            for work in at.dist.batch_isend_irecv(ops) if ops else []:
                work.wait()
            return out

        for cell in (broadcast, all_gather, all_gather_single_cat, all_gather_single_stack, gather, scatter,
                     all_to_all_single, all_to_all_single_splits, all_to_all_even, all_to_all, send_recv, ring, batch):
            yield f"{cell.__name__}/{dtype}", cell


def forms():
    """Shapes, strides, ways of calling."""
    shapes = {"scalar": (), "one": (1,), "nothing": (0,), "rows": (3, 4), "no_rows": (0, 3), "large": (40000,)}
    for dtype in ("float32", "int64", "uint8"):
        for name, shape in shapes.items():
            def all_reduce(at, dtype=dtype, shape=shape):
                x = at.values(dtype, shape)
                at.dist.all_reduce(x)
                return x

            def all_reduce_async(at, dtype=dtype, shape=shape):
                x = at.values(dtype, shape)
                work = at.dist.all_reduce(x, async_op=True)
                return work.wait(), work.is_completed(), x

            def broadcast(at, dtype=dtype, shape=shape):
                x = at.values(dtype, shape)
                work = at.dist.broadcast(x, at.size - 1, async_op=True)
                return work.wait(), x

            def all_gather(at, dtype=dtype, shape=shape):
                out = [at.empty(dtype, shape) for _ in range(at.size)]
                work = at.dist.all_gather(out, at.values(dtype, shape), async_op=True)
                return work.wait(), out

            def reduce(at, dtype=dtype, shape=shape):
                x = at.values(dtype, shape)
                at.dist.reduce(x, at.size - 1, async_op=True).wait()
                return x if at.rank == at.size - 1 else None

            def gather(at, dtype=dtype, shape=shape):
                out = [at.empty(dtype, shape) for _ in range(at.size)] if at.rank == 0 else None
                at.dist.gather(at.values(dtype, shape), out)
                return out

            def scatter(at, dtype=dtype, shape=shape):
                out = at.empty(dtype, shape)
                parts = [at.values(dtype, shape, seed=r) for r in range(at.size)] if at.rank == 0 else []
                at.dist.scatter(out, parts)
                return out

            def reduce_scatter(at, dtype=dtype, shape=shape):
                out = at.empty(dtype, shape)
                at.dist.reduce_scatter(out, [at.values(dtype, shape) for _ in range(at.size)])
                return out

            for cell in (all_reduce, all_reduce_async, broadcast, all_gather, reduce, gather, scatter,
                         reduce_scatter):
                yield f"{cell.__name__}/{dtype}/{name}", cell

    def strided(at):
        return torch.arange(24.0).reshape(4, 6).add(at.rank).t()[::2]

    def strided_all_reduce(at):
        x = strided(at)
        at.dist.all_reduce(x)
        return x

    def strided_broadcast(at):
        x = strided(at)
        at.dist.broadcast(x, at.size - 1)
        return x

    def strided_send(at):
        x = strided(at)
        if at.size > 1 and at.rank == 0:
            at.dist.send(x.contiguous(), 1)
        if at.size > 1 and at.rank == 1:
            at.dist.recv(y := torch.zeros(x.shape), 0)
            return y
        return None

    def requires_grad(at):
        x = at.values("float32").requires_grad_()
        at.dist.all_reduce(x)
        return x.detach(), x.requires_grad, x.grad_fn is None

    def conjugate(at):
        x = at.values("complex64").conj()
        at.dist.all_reduce(x)
        return x.resolve_conj()

    def negative(at):
        x = torch.complex(torch.ones(3), torch.ones(3) * (at.rank + 1)).conj().imag
        at.dist.broadcast(x, 0)
        return x.resolve_neg()

    def shared_memory(at):
        x = at.values("float32").share_memory_()
        at.dist.all_reduce(x)
        return x

    def sparse(at):
        x = torch.eye(2).to_sparse()
        at.dist.all_reduce(x)
        return x.to_dense()

    def complex_and_its_parts(at):
        out = [torch.zeros(3, 2) for _ in range(at.size)]
        at.dist.all_gather(out, at.values("complex64", (3,)))
        return out

    for cell in (strided_all_reduce, strided_broadcast, strided_send, requires_grad, conjugate, negative,
                 shared_memory, sparse, complex_and_its_parts):
        yield f"form/{cell.__name__}", cell


def coalesced():
    for dtype in ("float32", "int32", "float64", "uint8"):
        def all_reduce_coalesced(at, dtype=dtype):
            xs = [at.values(dtype, (n,)) for n in (1, 7, 3)]
            at.dist.all_reduce_coalesced(xs)
            return xs

        def all_reduce_coalesced_async(at, dtype=dtype):
            xs = [at.values(dtype, (n,)) for n in (1, 7, 3)]
            future = at.dist.all_reduce_coalesced(xs, async_op=True)
            future.wait()
            return future.done(), xs

        def all_gather_coalesced(at, dtype=dtype):
            ins = [at.values(dtype, (n,)) for n in (2, 5)]
            outs = [[at.empty(dtype, (n,)) for n in (2, 5)] for _ in range(at.size)]
            at.dist.all_gather_coalesced(outs, ins)
            return outs

        for cell in (all_reduce_coalesced, all_reduce_coalesced_async, all_gather_coalesced):
            yield f"{cell.__name__}/{dtype}", cell

    def manager(at):
        xs = [at.values("float32", (n,)) for n in (1, 7, 3)]
        with at.dist._coalescing_manager():
            for x in xs:
                at.dist.all_reduce(x)
        return xs

    yield "coalescing_manager", manager


def objects():
    values = {"number": 3, "text": "words", "nothing": None, "list": [1, [2.5, "x"]],
              "dict": {"a": (1, 2), "b": {3}}, "tensor": torch.arange(6).reshape(2, 3),
              "large": torch.arange(100_000), "bytes": b"\0\1" * 10}
    for name, value in values.items():
        def broadcast_object_list(at, value=value):
            objects = [value, at.size] if at.rank == at.size - 1 else [None, None]
            at.dist.broadcast_object_list(objects, at.size - 1)
            return objects

        def all_gather_object(at, value=value):
            out = [None] * at.size
            at.dist.all_gather_object(out, (at.rank, value))
            return out

        def gather_object(at, value=value):
            out = [None] * at.size if at.rank == 0 else None
            at.dist.gather_object((at.rank, value), out)
            return out

        def scatter_object_list(at, value=value):
            out = [None]
            at.dist.scatter_object_list(out, [(r, value) for r in range(at.size)] if at.rank == 0 else None)
            return out

        def object_list(at, value=value):
            if at.size > 1 and at.rank == 0:
                at.dist.send_object_list([value, 1], 1)
            if at.size > 1 and at.rank == 1:
                out = [None, None]
                return at.dist.recv_object_list(out, 0), out
            return None

        for cell in (broadcast_object_list, all_gather_object, gather_object, scatter_object_list, object_list):
            yield f"{cell.__name__}/{name}", cell


def works():
    def future(at):
        x = at.values("float32")
        work = at.dist.all_reduce(x, async_op=True)
        made = work.get_future()
        return made.wait(), made.done(), made.value(), made.then(lambda f: f.value()[0] * 2).wait()

    def broadcast_future(at):
        return at.dist.broadcast(at.values("float32"), 0, async_op=True).get_future().wait()

    def outcome(at):
        work = at.dist.all_reduce(at.values("float32"), async_op=True)
        work.wait()
        return work.is_completed(), work.is_success(), work.exception(), work.result()

    def self_transfer_order(at):
        x, y = at.values("float32"), at.empty("float32")
        if at.size > 1 and at.rank < 2:
            works = [at.dist.irecv(y, 1 - at.rank), at.dist.isend(x, 1 - at.rank)]
            return [work.wait() for work in works], y
        return None

    def source_rank_of_a_collective(at):
        work = at.dist.all_reduce(at.values("float32"), async_op=True)
        work.wait()
        work._source_rank()

    def reduce_op_kind(at):
        R = at.dist.ReduceOp
        return ([int(getattr(R, name)) for name in OPS], isinstance(R.SUM, R), R.SUM == R.SUM, R.SUM == R.MAX,
                hash(R.SUM) == hash(R.SUM), R(R.MAX) == R.MAX, str(R.MIN), [at.dist.supports_complex(getattr(R, name))
                                                                         for name in ("SUM", "AVG", "MAX", "BAND")])

    def reduce_op_deprecated(at):
        x = at.values("float32")
        at.dist.all_reduce(x, at.dist.reduce_op.SUM)
        return x

    for cell in (future, broadcast_future, outcome, self_transfer_order, source_rank_of_a_collective, reduce_op_kind,
                 reduce_op_deprecated):
        yield f"work/{cell.__name__}", cell
