"""tutti.torch.all_reduce_: the values of dist.all_reduce, errors, torch.compile, and the operator of the Python fallback."""

import os
import signal
import sys
from datetime import timedelta

import pytest
import torch
import torch._dynamo  # here, so that it is imported once and not in every process
import torch.distributed as dist

import stacks
import tutti.torch
from forked import all_come, begin, check_killed, on_ranks
from python_fallback_test import in_python
from tutti.torch import all_reduce_

DTYPES = [torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.int32, torch.uint8, torch.complex64]


@on_ranks(1, 2, 3, 4)
def test_values(rank, size):
    torch.manual_seed(rank)
    for dtype in DTYPES:
        for shape in [(), (0,), (1,), (7, 3), (4096,), (300, 1000)]:
            x = (8 * torch.randn(shape)).to(dtype)
            expected = x.clone()
            dist.all_reduce(expected)
            version = x._version
            assert all_reduce_(x) is x and torch.equal(x, expected), (dtype, shape)
            assert x._version > version, "a tensor that backward has kept must be known to have changed"
    for op in ("avg", "min", "max", "product", "band", "bor", "bxor"):
        x = torch.tensor([rank + 1]) if op.startswith("b") else torch.full((5,), rank + 1.0)
        expected, of_torch = x.clone(), getattr(dist.ReduceOp, op.upper())
        dist.all_reduce(expected, of_torch)
        assert torch.equal(all_reduce_(x.clone(), of_torch), expected)
        assert torch.equal(all_reduce_(x, op), expected)
    columns = torch.zeros(4, 6)
    all_reduce_(columns[:, 1:3].fill_(rank + 1.0))
    assert columns.sum() == 8 * size * (size + 1) // 2 and columns[:, 3:].sum() == 0
    z = torch.full((2,), 1 + 2j)
    assert all_reduce_(z.conj()).tolist() == [size * (1 - 2j)] * 2 and z.tolist() == [size * (1 + 2j)] * 2
    assert all_reduce_(z.conj().imag).tolist() == [-2 * size ** 2] * 2 and z.tolist() == [size * (1 + 2j * size)] * 2
    with torch.inference_mode():
        assert all_reduce_(torch.ones(3)).tolist() == [size] * 3
    weight = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert all_reduce_(weight).tolist() == [size] * 2


@on_ranks(4)
def test_groups(rank, size):
    odd = dist.new_group(list(range(1, size, 2)))
    if rank % 2:
        for group in (odd, odd.group_name):
            assert all_reduce_(torch.tensor(1.0), group=group) == size // 2
    else:
        with pytest.raises(ValueError, match="not in the group"):
            all_reduce_(torch.tensor(1.0), group=odd)
    gloo = dist.new_group(backend="gloo")
    assert all_reduce_(torch.tensor(1.0), group=gloo) == size, "a group of any backend"
    assert all_reduce_(torch.tensor(1.0)) == size


@on_ranks(2)
def test_bad_calls():
    begin()
    one = torch.ones(1)
    for wrong, kind, text in [
        (lambda: all_reduce_(one, "add"), ValueError, "op is 'sum', 'avg', .* or 'bxor', not 'add'"),
        (lambda: all_reduce_(one, "band"), ValueError, "BAND of float32 has no meaning"),
        (lambda: all_reduce_(one, group="nowhere"), ValueError, "in no group with the name 'nowhere'"),
        (lambda: all_reduce_(one, group=[0, 1]), TypeError, "group is a ProcessGroup, its name or None"),
        (lambda: torch.ops.tutti.all_reduce_(torch.ones(1, device="meta"), "add", "0"), ValueError, "or 'bxor', not 'add'"),
        (lambda: all_reduce_(one, dist.group.WORLD), TypeError, "op is a name or a ReduceOp, not a ProcessGroup"),
        (lambda: all_reduce_(one, dist.ReduceOp.PREMUL_SUM), ValueError, "op is 'sum', .*, not .*PREMUL_SUM"),
        (lambda: all_reduce_(torch.ones(1, requires_grad=True)), RuntimeError, "use tutti.torch.nn.all_reduce"),
        (lambda: all_reduce_(torch.ones(2, dtype=torch.complex32)), TypeError, "cannot be combined"),
        (lambda: all_reduce_([1.0]), TypeError, "a torch.Tensor is needed, not a list"),
    ]:
        with pytest.raises(kind, match=text):
            wrong()
    assert all_reduce_(one) == 2, "nothing was sent"


@on_ranks(2)
def test_compiled(rank, size):
    def layer(x, weight):
        return torch.relu(all_reduce_(x @ weight)) + x

    x, weight = torch.full((2, 4), rank + 1.0), torch.eye(4)
    expected = layer(x, weight)
    for backend in ("eager", "aot_eager"):
        assert torch.equal(torch.compile(layer, fullgraph=True, backend=backend)(x, weight), expected)
    torch.library.opcheck(torch.ops.tutti.all_reduce_.default, (x.clone(), "sum", dist.group.WORLD.group_name),
                          test_utils=("test_schema", "test_faketensor"))


@on_ranks(2)
def test_values_in_python():
    in_python(test_values)


@on_ranks(2, TORCH_DISTRIBUTED_DEBUG="DETAIL")
def test_torchs_wrapper(size):
    assert all_reduce_(torch.ones(2)).tolist() == [size] * 2


def body_killed(call):
    rank, _ = begin()
    call()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(dist.DistNetworkError, match="rank 1"):
        call()


@pytest.mark.parametrize("call", [
    lambda: all_reduce_(torch.ones(1)),
    lambda: tutti.torch.all_reduce_add_rms_norm_(torch.ones(2, 4), torch.ones(2, 4), torch.ones(4)),
], ids=["all_reduce_", "all_reduce_add_rms_norm_"])
def test_a_killed_rank_is_named(call):
    check_killed(body_killed, 3, 1, call)


@on_ranks(2)
def test_a_rank_that_does_not_come_is_named(rank):
    dist.group.WORLD.set_timeout(timedelta(seconds=0.5))
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match="a timeout has passed: .* rank 1"):
            all_reduce_(torch.ones(1))
    all_come()


WITHOUT_MODULE = """
import importlib.util, warnings
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name.startswith("_tutti_torch") else found(name, *rest)
warnings.simplefilter("ignore")
import torch
import torch.distributed as dist
import tutti.torch
dist.init_process_group("tutti", store=dist.HashStore(), rank=0, world_size=1)
x = torch.full((3,), 2.0)
assert tutti.torch.all_reduce_(x) is x and x.tolist() == [2.0] * 3 and x._version == 1
for wrong, kind in [((x, "add"), ValueError), ((x, "band"), ValueError), ((x.clone().requires_grad_(),), RuntimeError)]:
    try:
        tutti.torch.all_reduce_(*wrong)
    except kind:
        continue
    raise SystemExit(f"no {kind}")
assert tutti.torch.all_reduce_(torch.ones(2, device="meta")).shape == (2,)
norm = tutti.torch.all_reduce_add_rms_norm_
x, y, weight = torch.full((2, 8), 2.0), torch.ones(2, 8), torch.full((8,), 5.0)
assert norm(x, y, weight, 0.0) is x and y.tolist() == [[3.0] * 8] * 2 and (x - 5).abs().max() < 1e-6
for wrong, kind in [((x, y[0], weight), ValueError), ((x, y, y), ValueError), ((x, x, weight), ValueError),
                    ((x, y.half(), weight), TypeError), ((x, torch.ones(8, 2).t(), weight), ValueError),
                    ((x, y, weight.clone().requires_grad_()), RuntimeError), ((x.sum(), y, weight), ValueError)]:
    try:
        norm(*wrong)
    except kind:
        continue
    raise SystemExit(f"no {kind}")
"""


def test_the_operator_without_a_compiled_part():
    stacks.said("-c", WITHOUT_MODULE)


def test_a_compiled_part_that_does_not_load_is_told(tmp_path):
    name = "_tutti_torch_" + "_".join(torch.__version__.split(".")[:2])
    (tmp_path / f"{name}.so").write_bytes(b"no library")
    done = stacks.python("-c", "import tutti.torch",
                         env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])})
    assert done.returncode == 1 and "does not load; it may have been built for another build of torch" in done.stderr
