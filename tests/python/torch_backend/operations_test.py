"""Every operation, with every dtype that it takes, on 1 to 4 ranks: the values are those of torch's own formulas."""

import functools
import itertools

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

import tutti.torch  # noqa: F401
from forked import on_ranks
from tutti.torch import _python_fallback

INTEGERS = [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.uint32, torch.int32, torch.uint64, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.float8_e4m3fn, torch.float8_e5m2]
COMPLEX = [torch.complex64, torch.complex128]
ARITHMETIC = [torch.bool, *INTEGERS, *FLOATS, *COMPLEX]
MOVED = [*ARITHMETIC, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.complex32]
SHAPES = [(), (5,), (3, 4), (0,), (2, 3000)]
BITWISE = {ReduceOp.BAND: torch.bitwise_and, ReduceOp.BOR: torch.bitwise_or, ReduceOp.BXOR: torch.bitwise_xor}


def numbers(rank, dtype, shape, least=0):
    """Small whole numbers, exact in every dtype, that differ from rank to rank."""
    count = torch.Size(shape).numel()
    values = (torch.arange(count) * 2 + rank * 3) % 3 + least
    if dtype == torch.bool:
        return (values % 2 == 0).reshape(shape)
    return values.to(torch.complex128 if dtype.is_complex else torch.float64).to(dtype).reshape(shape)


def wide(tensor):
    """In a dtype in which torch computes without rounding."""
    if tensor.dtype == torch.bool:
        return tensor.to(torch.int64)
    return tensor.to(torch.complex128 if tensor.dtype.is_complex else torch.float64)


def same(a, b):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    size = a.element_size()
    as_bytes = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(size)
    if as_bytes is None:
        return torch.equal(a, b)
    return torch.equal(a.contiguous().view(as_bytes), b.contiguous().view(as_bytes))


def expected(op, inputs):
    """What `op` makes of the inputs of all ranks."""
    dtype = inputs[0].dtype
    values = [one.to(torch.int64) if op in BITWISE else wide(one) for one in inputs]
    total = functools.reduce({**BITWISE, ReduceOp.PRODUCT: torch.mul, ReduceOp.MIN: torch.minimum,
                              ReduceOp.MAX: torch.maximum}.get(op, torch.add), values)
    if op == ReduceOp.AVG:
        total = total / len(values)
        return (total.trunc() if dtype in INTEGERS else total).to(dtype)
    return total.to(dtype)


def given(kind, **fields):
    """Options of torch's with these fields."""
    options = kind()
    for name, value in fields.items():
        setattr(options, name, value)
    return options


def ops_of(dtype):
    ops = [ReduceOp.SUM, ReduceOp.PRODUCT]
    if not dtype.is_complex:
        ops += [ReduceOp.MIN, ReduceOp.MAX]
    if dtype in INTEGERS or dtype == torch.bool:
        ops += BITWISE
    if dtype in INTEGERS or dtype in FLOATS or dtype.is_complex:
        ops += [ReduceOp.AVG]
    return ops


@on_ranks(1, 2, 3, 4, limit=60)
def test_reductions(rank, size):
    group = dist.group.WORLD
    for dtype, shape in itertools.product(ARITHMETIC, SHAPES):
        inputs = [numbers(r, dtype, shape) for r in range(size)]
        for op in ops_of(dtype):
            wanted = expected(op, inputs)
            what = f"{dtype} {tuple(shape)} {op}"
            x = inputs[rank].clone()
            group.allreduce([x], given(dist.AllreduceOptions, reduceOp=op)).wait()
            assert same(x, wanted), f"all_reduce {what}: {x} instead of {wanted}"
            root = size - 1
            x = inputs[rank].clone()
            group.reduce([x], given(dist.ReduceOptions, reduceOp=op, rootRank=root)).wait()
            assert same(x, wanted if rank == root else inputs[rank]), f"reduce {what}: {x}"
            blocks = [[numbers(r + b, dtype, shape) for b in range(size)] for r in range(size)]
            wanted = expected(op, [blocks[r][rank] for r in range(size)])
            x = torch.empty_like(inputs[rank])
            options = given(dist.ReduceScatterOptions, reduceOp=op)
            group.reduce_scatter([x], [blocks[rank]], options).wait()
            assert same(x, wanted), f"reduce_scatter {what}: {x} instead of {wanted}"
            x = torch.empty_like(inputs[rank])
            group.reduce_scatter_single(x, torch.stack(blocks[rank]), options).wait()
            assert same(x, wanted), f"reduce_scatter_single {what}: {x} instead of {wanted}"
    dist.destroy_process_group()


@on_ranks(1, 2, 3, 4, limit=60)
def test_moves(rank, size):
    group = dist.group.WORLD
    for dtype, shape in itertools.product(MOVED, SHAPES):
        what = f"{dtype} {tuple(shape)}"
        mine = [numbers(r, dtype, shape) for r in range(size)]
        for root in {0, size - 1}:
            x = mine[rank].clone()
            group.broadcast([x], given(dist.BroadcastOptions, rootRank=root)).wait()
            assert same(x, mine[root]), f"broadcast {what}"
            into = [torch.empty_like(one) for one in mine] if rank == root else []
            group.gather([into] if into else [], [mine[rank]], given(dist.GatherOptions, rootRank=root)).wait()
            assert all(map(same, into, mine)), f"gather {what}"
            # Since torch 2.14, which hands it on to C++ alone.
            if hasattr(dist, "gather_single") and not isinstance(group, _python_fallback.ProcessGroupTutti):
                x = torch.zeros((size, *shape), dtype=dtype) if rank == root else None
                dist.gather_single(mine[rank], x, root)
                assert rank != root or all(map(same, x, mine)), f"gather_single {what}"
            x = torch.empty_like(mine[rank])
            group.scatter([x], [mine] if rank == root else [], given(dist.ScatterOptions, rootRank=root)).wait()
            assert same(x, mine[rank]), f"scatter {what}"
        into = [torch.empty_like(one) for one in mine]
        group.allgather([into], [mine[rank]]).wait()
        assert all(map(same, into, mine)), f"all_gather {what}"
        x = torch.empty((size, *shape), dtype=dtype)
        group.all_gather_single(x, mine[rank]).wait()
        assert all(map(same, x, mine)), f"all_gather_single {what}"
        sent = [numbers(rank + r, dtype, shape) for r in range(size)]
        due = [numbers(r + rank, dtype, shape) for r in range(size)]
        into = [torch.empty_like(one) for one in due]
        group.alltoall(into, sent).wait()
        assert all(map(same, into, due)), f"all_to_all {what}"
        if shape:
            x = torch.empty_like(torch.cat(due))
            group.alltoall_base(x, torch.cat(sent), [], []).wait()
            assert same(x, torch.cat(due)), f"all_to_all_single {what}"
        x = torch.empty_like(mine[rank])
        receiving = group.recv([x], (rank - 1) % size, 3)
        group.send([mine[rank]], (rank + 1) % size, 3).wait()
        receiving.wait()
        assert same(x, mine[(rank - 1) % size]), f"send and recv {what}"
    dist.destroy_process_group()


@on_ranks(1, 2, 3, 4, limit=60)
def test_uneven(rank, size):
    # Blocks of any size.
    blocks = [torch.full((r, 2), float(r)) for r in range(size)]
    into = [torch.empty_like(one) for one in blocks]
    dist.all_gather(into, blocks[rank])
    assert all(map(torch.equal, into, blocks))
    out = torch.empty(rank + 1)
    dist.reduce_scatter(out, [torch.full((r + 1,), float(rank)) for r in range(size)])
    assert torch.equal(out, torch.full((rank + 1,), sum(range(size)) * 1.0))
    # Rank r sends s rows to rank s; where only one rank names equal splits, too.
    out = torch.empty(size * rank, 2)
    sent = torch.cat([torch.full((s, 2), rank * 10.0 + s) for s in range(size)])
    dist.all_to_all_single(out, sent, [rank] * size, list(range(size)))
    assert torch.equal(out, torch.cat([torch.full((rank, 2), r * 10.0 + rank) for r in range(size)]))
    out = torch.empty(2 * size)
    splits = [2] * size if rank == 0 else None
    dist.all_to_all_single(out, torch.full((2 * size,), float(rank)), splits, splits)
    assert torch.equal(out, torch.arange(size).repeat_interleave(2).float())
    # Strides, and more dimensions than a view has.
    x = torch.arange(24.0).reshape(4, 6).t()[::2]
    dist.all_reduce(x)
    assert torch.equal(x, torch.arange(24.0).reshape(4, 6).t()[::2] * size)
    x = torch.ones([2] * 12).transpose(0, 11)
    dist.all_reduce(x)
    assert (x == size).all()
    x = torch.ones([2] * 10).permute(*range(9, -1, -1))
    with pytest.raises(ValueError, match=r"strides in 10 dimensions, and at most 8 are taken; call contiguous\(\)"):
        dist.all_reduce(x)
    # In place, and a tensor for all ranks that is the input of none.
    x = torch.zeros(size * 3)
    x[rank * 3:rank * 3 + 3] = rank
    dist.all_gather_single(x, x[rank * 3:rank * 3 + 3])
    assert torch.equal(x, torch.arange(size).repeat_interleave(3).float())
    dist.destroy_process_group()


@on_ranks(1, 2, 3, 4, limit=60)
def test_coalesced(rank, size):
    group = dist.group.WORLD
    mixed = [torch.full((3,), rank + 1.0), torch.full((2, 2), rank, dtype=torch.int32), torch.full((4,), rank + 2.0)]
    tensors = [one.clone() for one in mixed]
    group.allreduce_coalesced(tensors).wait()
    total = sum(range(size))
    assert (tensors[0] == total + size).all() and (tensors[1] == total).all() and (tensors[2] == total + 2 * size).all()
    outputs = [[torch.empty_like(one) for one in mixed] for _ in range(size)]
    group.allgather_coalesced(outputs, mixed).wait()
    for r, (a, b, c) in enumerate(outputs):
        assert (a == r + 1).all() and (b == r).all() and (c == r + 2).all()
    outputs = [torch.empty((size, *one.shape), dtype=one.dtype) for one in mixed]
    group.all_gather_single_coalesced(outputs, mixed).wait()
    for r in range(size):
        assert (outputs[0][r] == r + 1).all() and (outputs[1][r] == r).all() and (outputs[2][r] == r + 2).all()
    inputs = [torch.stack([one * (r + 1) for r in range(size)]) for one in mixed]
    outputs = [torch.empty_like(one) for one in mixed]
    group.reduce_scatter_single_coalesced(outputs, inputs).wait()
    assert (outputs[0] == (total + size) * (rank + 1)).all() and (outputs[1] == total * (rank + 1)).all()
    # What the coalescing manager collects, and what it leaves to the backend.
    with dist._coalescing_manager():
        for one in tensors:
            dist.all_reduce(one)
    assert (tensors[1] == total * size).all()
    with dist._coalescing_manager(device=torch.device("cpu"), async_ops=True) as manager:
        dist.broadcast(tensors[0], 0)
        dist.broadcast(tensors[2], 0)
    manager.wait()
    operations = [dist.P2POp(dist.isend, torch.full((2,), float(rank)), (rank + 1) % size),
                  dist.P2POp(dist.irecv, torch.empty(2), (rank - 1) % size)]
    works = dist.batch_isend_irecv(operations)
    assert len(works) == 1
    works[0].wait()
    assert (operations[1].tensor == (rank - 1) % size).all()
    dist.destroy_process_group()


@on_ranks(1, 2, 3, 4, limit=60)
def test_views(rank, size):
    """Conjugated and negated views: read right, and refused where they are written."""
    sum_of_ranks = size * (size - 1) / 2

    def negated(length=2):
        return torch.full((length,), complex(1, rank)).conj().imag

    def plain(length=2):
        return torch.full((length,), float(rank))

    def empty(count):
        return [torch.empty(2) for _ in range(count)]

    parts = empty(size)
    dist.all_gather(parts, negated())
    assert [part[0].item() for part in parts] == [-r for r in range(size)]
    part = torch.empty(2)
    dist.reduce_scatter_single(part, negated(2 * size))
    assert part.tolist() == [-sum_of_ranks] * 2
    parts = torch.empty(size, dtype=torch.complex64)
    dist.group.WORLD._allgather_base(parts, torch.full((1,), complex(1, rank)).conj()).wait()
    assert parts.tolist() == [complex(1, -r) for r in range(size)]

    group = dist.group.WORLD
    for written, call in [
        (negated(), lambda x: group.allreduce([x])),
        (negated(), lambda x: group.allreduce_coalesced([x], dist.AllreduceCoalescedOptions())),
        (negated(), lambda x: group.broadcast([x], dist.BroadcastOptions())),
        (negated(), lambda x: group.reduce([x], dist.ReduceOptions())),
        (torch.full((2,), 1j).conj(), lambda x: group.reduce([x], dist.ReduceOptions())),
        (negated(2 * size), lambda x: group.all_gather_single(x, plain())),
        (negated(2 * size), lambda x: group.all_gather_single_coalesced([x], [plain()])),
        (negated(), lambda x: group.reduce_scatter([x], [[plain() for _ in range(size)]])),
        (negated(), lambda x: group.reduce_scatter_single(x, plain(2 * size))),
        (negated(), lambda x: group.reduce_scatter_single_coalesced([x], [plain(2 * size)])),
        (negated(), lambda x: group.scatter([x], [[plain() for _ in range(size)]] if rank == 0 else [],
                                               dist.ScatterOptions())),
        (negated(size), lambda x: group.all_to_all_single(x, plain(size), [], [])),
        (negated(), lambda x: group.alltoall([x] + empty(size - 1), [plain() for _ in range(size)])),
        (negated(), lambda x: group.recv([x], rank, 0)),
        (negated(), lambda x: group.recv_anysource([x], 0)),
        (negated(), lambda x: group.allgather([[x] + empty(size - 1)], [plain()])),
    ]:
        with pytest.raises(ValueError, match=r"conjugated or negated view; call resolve_conj\(\) and resolve_neg\(\) first"):
            call(written)
    dist.barrier()  # nothing was sent


@on_ranks(1, 2, 3, 4, limit=60)
def test_premul_sum(rank, size):
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for factor in (rank + 1.0, torch.tensor([rank + 1.0])):
            x = torch.full((3,), 2.0, dtype=dtype)
            dist.all_reduce(x, op=dist._make_nccl_premul_sum(factor))
            assert (x == size * (size + 1)).all(), (dtype, x)
    dist.destroy_process_group()


@on_ranks(1, 2, 3, 4, limit=60)
def test_sparse(rank, size):
    def made(r):
        # Other places and other numbers of them on each rank, none on the last; one place twice.
        places = torch.tensor([[0, r, r, 3], [1, 0, 0, 2]])[:, :0 if r == size - 1 and size > 1 else 4]
        values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])[:places.shape[1]]
        return torch.sparse_coo_tensor(places, values * (r + 1), (5, 3, 2), check_invariants=True)

    wanted = sum(made(r).to_dense() for r in range(size))
    for reduce in (dist.all_reduce, lambda t: dist.all_reduce(t, async_op=True).wait()):
        x = made(rank)
        reduce(x)
        assert x.is_sparse and torch.equal(x.to_dense(), wanted)
    with pytest.raises(ValueError, match="sparse tensors can only be summed up"):
        dist.all_reduce(made(rank), op=ReduceOp.MAX)
    with pytest.raises(ValueError, match="only all_reduce takes sparse ones"):
        dist.group.WORLD._get_backend(torch.device("cpu")).broadcast([made(rank)])
    dist.destroy_process_group()


@on_ranks(2)
def test_gives_what_gloo_gives(rank, size):
    """What both have gives the same bits: two addends have one order."""
    ours, gloo = dist.group.WORLD, dist.new_group(backend="gloo")
    torch.manual_seed(rank)
    x = torch.randn(1000)
    results = []
    for group in (ours, gloo):
        one = x.clone()
        dist.all_reduce(one, group=group)
        every = [torch.empty(1000) for _ in range(size)]
        dist.all_gather(every, x, group=group)
        part = torch.empty(500)
        dist.reduce_scatter(part, list(x.chunk(2)), group=group)
        moved = torch.empty(1000)
        dist.all_to_all_single(moved, x, group=group)
        values = [None] * size
        dist.all_gather_object(values, {"rank": rank, "x": x[:3]}, group=group)
        results.append([one, *every, part, moved, *[value["x"] for value in values]])
    assert all(map(torch.equal, *results))
    dist.barrier(gloo)
    # Gloo's threads may want the GIL when the group goes: not ours to test.
