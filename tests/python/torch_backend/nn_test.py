"""Collectives with a gradient: their values, their derivatives, what they refuse, and torch.compile of them."""

import functools

import pytest
import torch
import torch._dynamo  # here, so that it is imported once and not in every process
import torch.distributed as dist
from torch.autograd import gradcheck, gradgradcheck

import tutti.torch.nn as nn
from forked import on_ranks
from nn_cases import cases, flat, splits_of
from ranks import LONG, one_by_rotation


class Shared(torch.autograd.Function):
    """The same tensor on all ranks, for a function that all ranks compute together."""

    @staticmethod
    def forward(ctx, tensor):
        return tensor.clone()

    @staticmethod
    def backward(ctx, grad):
        return Total.apply(grad)


class Total(torch.autograd.Function):
    """The sum over the ranks, of which every rank computes the same."""

    @staticmethod
    def forward(ctx, tensor):
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, grad):
        return Shared.apply(grad)


def whole_of(function, example, rank, size):
    """The collective as a function of the inputs of all ranks to the outputs of all, which every rank computes."""
    count = torch.tensor(flat(function(example)).numel())
    dist.all_reduce(count, dist.ReduceOp.MAX)

    def whole(inputs):
        output = flat(function(Shared.apply(inputs)[rank]))
        output = torch.nn.functional.pad(output, (0, int(count) - output.numel()))
        return Total.apply(torch.stack([output if r == rank else torch.zeros_like(output) for r in range(size)]))
    return whole


@on_ranks(2, *one_by_rotation([1, 3, 4]), limit=300)
def test_gradients(rank, size):
    """The first and second derivatives of the sum over all ranks."""
    for dtype in [torch.float64, torch.complex128] if size == 2 or LONG else [torch.float64]:
        for name, (function, shape) in cases(rank, size).items():
            torch.manual_seed(5)
            inputs = torch.randn(size, *shape, dtype=dtype, requires_grad=True)
            whole = whole_of(function, inputs.detach()[rank], rank, size)
            assert gradcheck(whole, inputs), name
            assert gradgradcheck(whole, inputs), name


@on_ranks(1, 2, 3, 4)
def test_backwards(rank, size):
    """What all_gather promises of each of its backwards, by formula."""
    weights = torch.arange(1.0, 1 + 2 * size * size, dtype=torch.float64).reshape(size, 2 * size)
    own = slice(2 * rank, 2 * rank + 2)
    for backward, expected in [("sum", weights.sum(0)[own]), ("avg", weights.mean(0)[own]),
                               ("own", weights[rank][own])]:
        for function in (lambda x: nn.all_gather_single(x, backward=backward),
                         lambda x: torch.stack(nn.all_gather(x, backward=backward)).reshape(-1)):
            x = torch.full((2,), float(rank), dtype=torch.float64, requires_grad=True)
            (function(x) * weights[rank]).sum().backward()
            assert torch.allclose(x.grad, expected, rtol=1e-14), (backward, x.grad, expected)
    for backward in ("avg", "own"):
        torch.manual_seed(6)
        inputs = torch.randn(size, 2, dtype=torch.float64, requires_grad=True)
        function = functools.partial(nn.all_gather_single, backward=backward)
        # Every rank computes the same loss of the result: then these are the gradient.
        assert gradcheck(lambda x: function(Shared.apply(x)[rank]), inputs)
        # The second derivative is that of the first, whatever the first is.
        assert gradgradcheck(whole_of(function, inputs.detach()[rank], rank, size), inputs)


@on_ranks(1, 2, 3, 4)
def test_values(rank, size):
    last = size - 1
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.complex64):
        def made(r, s, dtype=dtype):
            """What rank r has for rank s: not contiguous."""
            return (torch.arange(12).reshape(3, 4).t() + 10 * r + 3 * s).to(dtype)

        inputs = [made(r, 0) for r in range(size)]
        total, zeros = sum(inputs), torch.zeros_like(inputs[0])
        x = made(rank, 0)
        assert torch.equal(nn.all_reduce(x), total) and torch.equal(nn.all_reduce(x, dist.ReduceOp.SUM), total)
        assert torch.equal(nn.all_reduce(x * size, "avg"), total)
        assert torch.equal(nn.reduce(x, last), total if rank == last else zeros)
        assert torch.equal(nn.reduce(x * size, 0, "avg"), total if rank == 0 else zeros)
        assert torch.equal(nn.broadcast(x, last), inputs[last])
        assert torch.equal(nn.all_gather_single(x), torch.cat(inputs))
        assert torch.equal(torch.stack(nn.all_gather(x)), torch.stack(inputs))
        assert torch.equal(torch.stack(nn.gather(x, last)), torch.stack(inputs) * (rank == last))
        rows = [made(rank, s) for s in range(size)]
        assert torch.equal(nn.scatter(rows, last), made(last, rank))
        mine = sum(made(r, rank) for r in range(size))
        assert torch.equal(nn.reduce_scatter(rows), mine)
        assert torch.equal(nn.reduce_scatter_single(torch.cat(rows)), mine)
        assert torch.equal(nn.reduce_scatter_single(torch.cat(rows) * size, "avg"), mine)
        came = [made(r, rank) for r in range(size)]
        assert torch.equal(torch.stack(nn.all_to_all(rows)), torch.stack(came))
        assert torch.equal(nn.all_to_all_single(torch.cat(rows)), torch.cat(came))
        receives, sends = splits_of(rank, size)
        sent = torch.cat([row[:count] for row, count in zip(rows, sends, strict=True)])
        assert torch.equal(nn.all_to_all_single(sent, receives, sends),
                           torch.cat([row[:count] for row, count in zip(came, receives, strict=True)]))
        assert torch.equal(x, made(rank, 0)), "an input stays as it is"
    for name, (function, shape) in cases(rank, size).items():
        x = torch.tensor(2.0 + rank, requires_grad=True)
        output = flat(function(x.expand(shape)))
        assert torch.equal(output, flat(function(x.expand(shape).contiguous()))), name
        output.sum().backward()  # a gradient whose elements lie in one place
    z = torch.tensor([1 + 2j, 3j]) * (rank + 1)
    assert torch.equal(nn.all_reduce(z.conj()), torch.tensor([1 - 2j, -3j]) * (size * (size + 1) // 2))
    assert nn.all_gather_single(torch.ones(0, 3)).shape == (0, 3)
    assert nn.all_gather(torch.tensor(rank)) == tuple(torch.tensor(r) for r in range(size))


def of_odd_ranks(rank, odd):
    x = torch.full((1,), float(rank), requires_grad=True)
    assert nn.all_reduce(x, group=odd).item() == 4
    assert nn.broadcast(x, 3, odd).item() == 3, "the root is a rank of the default group"
    assert [one.item() for one in nn.gather(x, 1, odd)] == ([1, 3] if rank == 1 else [0, 0])
    (nn.all_gather_single(x, odd.group_name) * rank).sum().backward()
    assert x.grad.item() == 4
    for call in (nn.broadcast, nn.gather, nn.reduce):
        with pytest.raises(ValueError, match=r"rank 2 is not in the group, which has the ranks \[1, 3\]"):
            call(x, 2, group=odd)


@on_ranks(4)
def test_part_of_the_ranks(rank):
    odd = dist.new_group([1, 3])
    if rank % 2 == 1:
        of_odd_ranks(rank, odd)
    else:
        with pytest.raises(ValueError, match="this rank is not in the group"):
            nn.all_reduce(torch.ones(1), group=odd)
    dist.barrier()


@on_ranks(2)
def test_bad_calls(rank):
    one, two, three = torch.ones(1), torch.ones(2), torch.ones(3)
    for call, kind, text in [
        (lambda: nn.all_reduce([1.0]), TypeError, "all_reduce: a torch.Tensor is needed, not a list"),
        (lambda: nn.all_reduce(one, "max"), ValueError, "all_reduce: op is 'sum' or 'avg', not 'max'"),
        (lambda: nn.reduce(one, 0, "product"), ValueError, "reduce: op is 'sum' or 'avg', not 'product'"),
        (lambda: nn.reduce_scatter_single(two, "min"), ValueError, "reduce_scatter_single: op is 'sum' or 'avg', not 'min'"),
        (lambda: nn.all_reduce(one, group="nobody"), ValueError, "this rank is in no group with the name 'nobody'"),
        (lambda: nn.all_reduce(one, group=7.5), TypeError, "group is a ProcessGroup, its name or None, not a float"),
        (lambda: nn.all_reduce(one.to_sparse()), ValueError, "all_reduce: the tensor is torch.sparse_coo"),
        (lambda: nn.broadcast(one, 2), ValueError, "broadcast: rank 2 is not in the group, which has the ranks"),
        (lambda: nn.scatter([one, one], -1), ValueError, "scatter: rank -1 is not in the group"),
        (lambda: nn.scatter([one], 0), ValueError, "scatter: 1 tensors were given; one for each of the 2 ranks"),
        (lambda: nn.scatter(one, 0), TypeError, "scatter: a list or tuple of tensors is needed, not a Tensor"),
        (lambda: nn.scatter([one, two], 0), ValueError, "scatter: the tensors must have one shape"),
        (lambda: nn.reduce_scatter([one, one.double()]), ValueError, "reduce_scatter: the tensors must be of one dtype"),
        (lambda: nn.reduce_scatter([one, None]), TypeError, "reduce_scatter: a torch.Tensor is needed, not a None"),
        (lambda: nn.reduce_scatter_single(three), ValueError, "dimension 0 must be a multiple of the 2 ranks"),
        (lambda: nn.reduce_scatter_single(torch.tensor(1.0)), ValueError, "dimension 0 must be a multiple of the 2"),
        (lambda: nn.all_gather(one, backward="mine"), ValueError, "backward is 'sum', 'avg' or 'own', not 'mine'"),
        (lambda: nn.all_gather_single(torch.tensor(1.0)), ValueError, "the tensor has no dimension 0; all_gather takes"),
        (lambda: nn.all_to_all_single(three), ValueError, "without splits dimension 0 must be a multiple of the 2"),
        (lambda: nn.all_to_all_single(three, [1, 2]), ValueError, "give both output_split_sizes and input_split_sizes"),
        (lambda: nn.all_to_all_single(three, [3], [1, 2]), ValueError, "output_split_sizes has 1 numbers"),
        (lambda: nn.all_to_all_single(three, [2, 1], [1, 1]), ValueError, "input_split_sizes add up to 2"),
        (lambda: nn.all_to_all_single(three, [-1, 1], [1, 2]), ValueError, "output_split_sizes has a negative number"),
        (lambda: nn.all_reduce(one, dist.group.WORLD), TypeError, "all_reduce: op is a name or a ReduceOp, not a Proc"),
        (lambda: nn.all_reduce(one, dist.ReduceOp.MAX), ValueError, "all_reduce: op is 'sum' or 'avg', not 'max'"),
        (lambda: nn.broadcast(one, None), TypeError, "broadcast: a rank is needed, not a NoneType"),
        (lambda: nn.reduce(one, "0"), TypeError, "reduce: a rank is needed, not a str"),
        (lambda: nn.gather(one, 1.0), TypeError, "gather: a rank is needed, not a float"),
        (lambda: nn.all_gather(one, backward=None), ValueError, "backward is 'sum', 'avg' or 'own', not None"),
        (lambda: nn.all_to_all_single(three, [1.5, 1.5], [1, 2]), TypeError, "output_split_sizes has whole numbers, not a"),
        (lambda: nn.all_to_all([one]), ValueError, "all_to_all: 1 tensors were given"),
        (lambda: nn.all_to_all([one, two], output_shapes=[(1,)]), ValueError, "1 output_shapes were given"),
        (lambda: nn.all_to_all([one, two], output_shapes=[(1,), (-2,)]), ValueError, "has a negative number"),
    ]:
        with pytest.raises(kind) as seen:
            call()
        assert text in str(seen.value), seen.value
    # Nothing was sent: the ranks are still in step.
    assert nn.all_reduce(torch.tensor(rank)).item() == 1
    with pytest.raises(dist.DistBackendError, match="all_reduce"):
        nn.all_reduce(torch.ones(1 + rank))
    dist.destroy_process_group()
    with pytest.raises(ValueError, match="there is no default group; call torch.distributed.init_process_group"):
        nn.all_reduce(one)


def compiled_is_the_same(layer, x):
    results = []
    for function in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        y = function(x)
        (grad,) = torch.autograd.grad(y.square().sum(), x)
        results.append((y.detach(), grad))
    assert torch.equal(results[0][0], results[1][0]) and torch.equal(results[0][1], results[1][1])


@on_ranks(2, limit=60)
def test_compiled(rank):
    torch.manual_seed(rank)
    x = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)

    def every(x):
        y = nn.all_reduce(x.sin(), "avg") + nn.broadcast(x, 0) + nn.reduce(x, 1)
        y = torch.cat(nn.gather(y, 0)) * nn.all_gather_single(x, backward="own")
        y = nn.reduce_scatter_single(y.cos()) + nn.scatter(list(nn.all_gather(x)), 1)
        z = nn.reduce_scatter([y, y.exp()], "avg") + nn.all_to_all([y, 2 * y])[1]
        return nn.all_to_all_single(z, [1 + rank] * 2, [1, 2])

    compiled_is_the_same(every, x)
    for group in (dist.group.WORLD, dist.group.WORLD.group_name):
        compiled_is_the_same(lambda x, group=group: nn.all_reduce(x.sin(), group=group), x)


@on_ranks(2, limit=60)
def test_checked_by_torch(rank, size):
    """Their schema, autograd, and kernels without values are what torch asks of an operator."""
    group = dist.group.WORLD.group_name
    ops = torch.ops.tutti
    x = torch.randn(2 * size, 3, requires_grad=True)
    splits = [1, 3] if rank == 0 else [3, 1]
    tests = ["test_schema", "test_autograd_registration", "test_faketensor"]
    for op, options in [(ops.all_reduce, ("sum",)), (ops.reduce, (1, "avg")), (ops.broadcast, (0,)), (ops.gather, (1,)),
                        (ops.scatter, (1,)), (ops.all_gather, ("sum",)), (ops.all_gather, ("own",)),
                        (ops.reduce_scatter, ("avg",)), (ops.own_part, ()), (ops.among_zeros, ()),
                        (ops.all_to_all_single, (splits, splits))]:
        torch.library.opcheck(op.default, (x, *options, size, group),
                              test_utils=[*tests, "test_aot_dispatch_dynamic"] if LONG else tests)
