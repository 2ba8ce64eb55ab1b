"""torch tensors on the CPU: in place, without a copy, whatever they stand for."""

import time

import pytest
import tutti
from operation_values import COMPLEX, WHOLE
from tutti._tutti import dtype_name

pytestmark = pytest.mark.torch
Premul = tutti.ReduceOp.PREMUL_SUM


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Not with this file: every process that collects the tests would import it, which takes seconds."""
    global torch
    import torch


@pytest.mark.parametrize("name", ["bool", *WHOLE, "float16", "bfloat16", "float32", "float64", *COMPLEX])
def test_dtypes(name):
    assert dtype_name(torch.zeros(2, dtype=getattr(torch, name))) == name


def test_narrow_floats(world):
    assert dtype_name(torch.zeros(2, dtype=torch.float8_e4m3fn)) == "float8_e4m3"
    assert dtype_name(torch.zeros(2, dtype=torch.float8_e5m2)) == "float8_e5m2"
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2, torch.bfloat16):
        x = torch.ones(6, dtype=torch.float32).to(dtype)
        world.all_reduce(x[::2], Premul, factor=3)
        assert x.float().tolist() == [3, 1, 3, 1, 3, 1]


def test_views_in_place(world):
    x = torch.ones(4, 6)
    world.all_reduce(x.t()[::2, 1:3], Premul, factor=2)
    assert x.sum() == 24 + 6
    point = torch.tensor(2.0)
    world.all_reduce(point, Premul, factor=4)
    assert point == 8
    world.all_reduce(torch.zeros(0, 3))


def test_gradients_are_not_recorded(world):
    leaf = torch.ones(3, requires_grad=True)
    inner = leaf * 2
    for x in (leaf, inner, torch.nn.Parameter(torch.ones(3))):
        node = x.grad_fn
        before = x.detach().clone()
        world.all_reduce(x, Premul, factor=3)
        assert torch.equal(x.detach(), 3 * before) and x.requires_grad and x.grad_fn is node
    out = torch.zeros(3)
    world.all_gather(out, leaf)
    assert not out.requires_grad and out.grad_fn is None


@pytest.mark.parametrize("asynchronous", [False, True])
def test_conjugate_and_negative_views(world, asynchronous):
    memory = torch.tensor([1 + 2j, 3 - 4j])

    def done(work):
        return work is None or work.wait()

    conjugate = memory.conj()
    negative = conjugate.imag
    assert conjugate.is_conj() and negative.is_neg()
    out = torch.zeros(2, dtype=torch.complex64)
    done(world.all_gather(out, conjugate, async_op=asynchronous))
    assert out.tolist() == [1 - 2j, 3 + 4j]
    part = torch.zeros(2)
    done(world.all_gather(part, negative, async_op=asynchronous))
    assert part.tolist() == [-2, 4]
    done(world.all_reduce(conjugate, Premul, factor=2, async_op=asynchronous))
    assert conjugate.is_conj() and conjugate.tolist() == [2 - 4j, 6 + 8j]
    assert memory.tolist() == [2 + 4j, 6 - 8j]
    done(world.all_gather(negative, torch.tensor([7.0, 8.0]), async_op=asynchronous))
    assert negative.tolist() == [7, 8] and memory.tolist() == [2 - 7j, 6 - 8j]


def test_a_dropped_operation_still_writes_through_a_conjugate_view(world):
    memory = torch.tensor([0j, 0j])
    conjugate = memory.conj()
    world.irecv(conjugate, 0)
    world.send(torch.tensor([1 + 2j, 3 - 4j]), 0)
    world.barrier()
    until = time.monotonic() + 30
    while memory[0] == 0 and time.monotonic() < until:  # the progress thread may be behind
        world.barrier()
        time.sleep(0.001)
    assert memory.tolist() == [1 - 2j, 3 + 4j]


@pytest.mark.parametrize("wrong", [lambda: torch.eye(3).to_sparse(),
                                   lambda: torch.zeros(3, device="meta"),
                                   lambda: torch.zeros(3, dtype=torch.float8_e4m3fnuz)])
def test_what_has_no_memory_here_is_refused(world, wrong):
    with pytest.raises(TypeError) as told:
        world.all_reduce(wrong())
    assert "\n" not in str(told.value)  # torch's own stack is left out
    assert str(told.value).startswith("all_reduce: the array, a Tensor, ")


def test_subclasses(world):
    class Mine(torch.Tensor):
        pass
    x = torch.ones(3).as_subclass(Mine)
    world.all_reduce(x, Premul, factor=2)
    assert x.tolist() == [2, 2, 2]
