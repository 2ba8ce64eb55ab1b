"""tutti.torch.all_reduce_add_rms_norm_: the values of torch's operators after an all_reduce, errors, torch.compile."""

import pytest
import torch
import torch._dynamo  # here, so that it is imported once and not in every process
import torch.distributed as dist
import torch.nn.functional as F

import tutti.torch
from forked import begin, on_ranks
from tutti.torch import all_reduce_add_rms_norm_

# By how much of itself a result may differ from the exact one: the last bit, or the float32 in which it was computed.
ROUNDING = {torch.bfloat16: 2**-8, torch.float16: 2**-10, torch.float32: 2**-20, torch.float64: 2**-45}


def drawn(rank, dtype, shape):
    torch.manual_seed(rank)
    return torch.randn(shape).to(dtype)


@on_ranks(1, 2, 3, 4)
def test_values(threads=1):
    torch.set_num_threads(threads)
    rank, _ = begin()
    for dtype, bound in ROUNDING.items():
        least = 2**-24 if dtype == torch.float16 else 0  # its smallest number
        for shape in [(1,), (15,), (2, 16), (3, 33), (1, 2, 1024), (64, 2048), (0, 8), (3, 0)]:
            x, residual, weight = drawn(rank, dtype, shape), drawn(99, dtype, shape), drawn(98, dtype, shape[-1:])
            summed = x.clone()
            dist.all_reduce(summed)
            expected = residual + summed
            wanted = F.rms_norm(expected.double(), shape[-1:], weight.double(), 1e-3)
            versions = x._version, residual._version
            assert all_reduce_add_rms_norm_(x, residual, weight, 1e-3) is x
            assert torch.equal(residual, expected), (dtype, shape)
            assert ((x.double() - wanted).abs() <= bound * wanted.abs() + least).all(), (dtype, shape)
            if x.numel():
                assert x._version > versions[0] and residual._version > versions[1]
    every = [torch.empty(16) for _ in range(dist.get_world_size())]
    dist.all_gather(every, all_reduce_add_rms_norm_(drawn(rank, torch.float32, 16), torch.ones(16), torch.ones(16)))
    assert all(torch.equal(one, every[0]) for one in every), "the ranks hold the same bits"


@on_ranks(2)
def test_special():
    begin()
    for dtype in (torch.bfloat16, torch.float32):
        for wrong in (float("nan"), float("inf"), -float("inf")):
            x = torch.ones(2, 40, dtype=dtype)
            x[0, 3] = wrong
            residual = torch.ones_like(x)
            all_reduce_add_rms_norm_(x, residual, torch.ones(40, dtype=dtype), 0.0)
            assert residual[0, 3].isnan() if wrong != wrong else residual[0, 3] == wrong
            assert x[0, 3].isnan() and torch.equal(x[1], torch.ones(40, dtype=dtype)), "a row of its own"
    with torch.inference_mode():
        assert all_reduce_add_rms_norm_(torch.ones(8), torch.ones(8), torch.ones(8), 0.0).tolist() == [1] * 8


@on_ranks(2)
def test_bad_calls():
    begin()
    x, weight = torch.ones(2, 8), torch.ones(8)
    for wrong, kind, text in [
        ((x, torch.ones(3, 8), weight), ValueError, r"the residual must have the shape \[2, 8\]"),
        ((x, x.clone(), torch.ones(2)), ValueError, r"the weight must have the shape \[8\]"),
        ((x, x.clone(), weight.half()), TypeError, "one floating-point dtype"),
        ((x.int(), x.int(), weight.int()), TypeError, "one floating-point dtype"),
        ((torch.ones(()), torch.ones(()), weight), ValueError, "no last dimension"),
        ((x, torch.ones(8, 2).t(), weight), ValueError, r"call contiguous\(\) and resolve_neg\(\) first"),
        ((torch._neg_view(x), x.clone(), weight), ValueError, "must be contiguous and no negated views"),
        ((x, torch._neg_view(x.clone()), weight), ValueError, "must be contiguous and no negated views"),
        ((x, x, weight), ValueError, "must not share memory"),
        ((x, x.clone(), x[1]), ValueError, "must not share memory"),
        ((x, x.clone(), weight.clone().requires_grad_()), RuntimeError, "requires a gradient"),
        ((x.to("meta"), x.to("meta"), torch.ones(3, device="meta")), ValueError, "the weight must have the shape"),
    ]:
        with pytest.raises(kind, match=text):
            all_reduce_add_rms_norm_(*wrong)
    with pytest.raises(ValueError, match="in no group with the name 'nowhere'"):
        all_reduce_add_rms_norm_(x, x.clone(), weight, group="nowhere")
    assert (x == 1).all() and tutti.torch.all_reduce_(torch.ones(1)) == 2, "nothing was sent"


@on_ranks(2)
def test_compiled(rank):
    def layer(x, residual, weight):
        return all_reduce_add_rms_norm_(x * 2, residual, weight) + residual

    tensors = torch.full((2, 4), rank + 1.0), torch.ones(2, 4), torch.ones(4)
    expected = layer(*(one.clone() for one in tensors))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*(one.clone() for one in tensors)), expected)
    operator = torch.ops.tutti.all_reduce_add_rms_norm_.default
    torch.library.opcheck(operator, (*tensors, 1e-6, dist.group.WORLD.group_name),
                          test_utils=("test_schema", "test_faketensor"))


@on_ranks(1)
def test_several_threads():
    test_values.body(2)
