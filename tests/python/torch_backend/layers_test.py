"""What torch builds on a backend runs on this one: DDP, FSDP2, functional collectives, tensor parallel, pipelines,
compiled programs, data loaders that fork, DETAIL mode."""

import os

import pytest
import torch
import torch._dynamo  # here, so that it is imported once and not in every process
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.checkpoint as checkpoint
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import tutti.torch  # noqa: F401
from forked import begin, on_ranks
from ranks import LONG

SIZES = [2, 4, 8] if LONG else [2]


def made_model():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32), torch.nn.Tanh(),
                               torch.nn.Linear(32, 3))


def batch(rank, step):
    torch.manual_seed(1000 * step + rank)
    return torch.randn(16, 8)


def loss_of(model, rank, step):
    return model(batch(rank, step)).square().mean()


def train(model, rank, steps=5, optimizer=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1) if optimizer is None else optimizer
    seen = []
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, rank, step).backward()
        seen += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
    return seen + [p.detach().clone() for p in model.parameters()]


def alone(members, kind=torch.optim.SGD, lr=0.1, size=None):
    """A model of one process, with its optimizer; `members`: for each step the ranks whose batches it has, of `size` if
    there are others."""
    model = made_model()
    optimizer = kind(model.parameters(), lr=lr)
    for step, ranks in enumerate(members):
        optimizer.zero_grad()
        backward_alone(model, ranks, step, size=size)
        optimizer.step()
    return model, optimizer


def backward_alone(model, ranks, *steps, size=None):
    """The gradients of the mean over these ranks, as DDP has them; summed over the steps."""
    (sum(loss_of(model, r, step) for r in ranks for step in steps) / (size or len(ranks))).backward()
    return model


def check_close(found, wanted, gradients=False, **tolerances):
    """The parameters of two models, or their gradients."""
    for ours, theirs in zip(found.parameters(), wanted.parameters(), strict=True):
        ours = ours.full_tensor() if hasattr(ours, "full_tensor") else ours
        torch.testing.assert_close(*((ours.grad, theirs.grad) if gradients else (ours, theirs)), **tolerances)


def check_like_alone(model, size):
    check_close(model, alone([range(size)] * 5)[0], rtol=1e-5, atol=1e-6)


def check_replicas(model, gradients=False):
    for p in model.parameters():
        mine = (p.grad if gradients else p).detach()
        every = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(every, mine)
        assert all(torch.equal(mine, other) for other in every)


@on_ranks(2)
def test_ddp_gets_the_gradients_that_gloo_gives(rank):
    results = []
    for group in (dist.group.WORLD, dist.new_group(backend="gloo")):
        model = made_model()
        if rank == 1:  # DDP gives all the weights of rank 0
            for p in model.parameters():
                p.data.zero_()
        results.append(train(DistributedDataParallel(model, bucket_cap_mb=0.001, process_group=group), rank))
    assert all(map(torch.equal, *results)), "two addends: every order gives the same bits"
    dist.barrier()


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(torch.nn.Linear(8, 3) for _ in range(3))
        self.rows = torch.nn.Embedding(50, 8, sparse=True)

    def forward(self, x, which):
        return self.parts[which](x + self.rows(torch.tensor([which, 3 + which])).sum(0))


def in_bfloat16(_, bucket):
    """A hook of the user's."""
    half = bucket.buffer().bfloat16() / dist.get_world_size()
    sent = dist.all_reduce(half, async_op=True).get_future()
    return sent.then(lambda done: bucket.buffer().copy_(done.value()[0]))


@on_ranks(*SIZES, limit=120)
def test_ddp_options(rank, size):
    # All buckets are views, the graph is the same each time.
    model = DistributedDataParallel(made_model(), gradient_as_bucket_view=True, static_graph=True)
    train(model, rank)
    check_like_alone(model, size)
    # Gradients are kept back, then sent.
    model = DistributedDataParallel(made_model())
    with model.no_sync():
        loss_of(model, rank, 0).backward()
    loss_of(model, rank, 1).backward()
    check_close(model, backward_alone(made_model(), range(size), 0, 1), gradients=True)
    # Hooks, with gradients in 16 bits.
    wanted = backward_alone(made_model(), range(size), 0)
    for hook, tolerance in ((fp16_compress_hook, 1e-3), (in_bfloat16, 1e-2)):
        model = DistributedDataParallel(made_model())
        model.register_comm_hook(None, hook)
        loss_of(model, rank, 0).backward()
        check_close(model, wanted, gradients=True, rtol=tolerance, atol=tolerance / 10)
    model = DistributedDataParallel(made_model())
    model.register_comm_hook(PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2), powerSGD_hook)
    train(model, rank)
    check_replicas(model)
    # Ranks use other parameters, and sparse gradients.
    torch.manual_seed(3)
    model = DistributedDataParallel(Branches(), find_unused_parameters=True)
    torch.manual_seed(rank)
    model(torch.randn(4, 8), rank % 3).sum().backward()
    for which, part in enumerate(model.module.parts):
        assert (part.weight.grad is not None and part.weight.grad.abs().sum() > 0) == (which < size)
    rows = model.module.rows.weight.grad
    assert rows.is_sparse and rows.to_dense().abs().sum(1).nonzero().flatten().tolist() == sorted(
        {r % 3 + row for r in range(size) for row in (0, 3)})


@on_ranks(*SIZES, limit=120)
def test_join(rank, size):
    # Each rank has one batch more than the one before it; at the end all have the model of the last.
    model = DistributedDataParallel(made_model())
    with Join([model]):
        train(model, rank, 3 + rank)
    wanted, _ = alone([[r for r in range(size) if step < 3 + r] for step in range(2 + size)], size=size)
    check_close(model, wanted, rtol=1e-5, atol=1e-6)
    check_replicas(model)


@on_ranks(*SIZES, limit=120)
def test_zero_optimizer(rank, size):
    model = DistributedDataParallel(made_model(), gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01, parameters_as_bucket_view=True)
    train(model, rank, 3, optimizer)
    wanted, whole = alone([range(size)] * 3, torch.optim.Adam, 0.01)
    check_close(model, wanted, rtol=1e-4, atol=1e-5)
    check_replicas(model)
    parts = torch.tensor(len(optimizer.optim.state_dict()["state"]))
    dist.all_reduce(parts)
    assert parts == len(list(model.parameters())), "each state is on one rank only"
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        state = optimizer.state_dict()["state"]
        for number, theirs in whole.state_dict()["state"].items():
            torch.testing.assert_close(state[number]["exp_avg"], theirs["exp_avg"], rtol=1e-4, atol=1e-5)
    dist.barrier()


def stages_of(model, count):
    """The layers in so many pieces."""
    layers = list(model)
    bounds = [len(layers) * part // count for part in range(count + 1)]
    return [torch.nn.Sequential(*layers[low:high]) for low, high in zip(bounds, bounds[1:])]


@on_ranks(*SIZES, limit=120)
def test_pipelines(rank, size):
    x, y = batch(0, 0), torch.arange(48.0).reshape(16, 3) / 48
    wanted = made_model()
    output = wanted(x)
    torch.nn.functional.mse_loss(output, y).backward()
    for schedule, each in ((ScheduleGPipe, 1), (Schedule1F1B, 1), (ScheduleInterleaved1F1B, 2)):
        count = size * each
        pieces = {part: piece for part, piece in enumerate(stages_of(made_model(), count)) if part % size == rank}
        stages = [PipelineStage(piece, part, count, torch.device("cpu")) for part, piece in pieces.items()]
        pipeline = schedule(stages[0] if each == 1 else stages, 16, loss_fn=torch.nn.functional.mse_loss)
        losses = []
        last = rank == (count - 1) % size
        found = pipeline.step(*([x] if rank == 0 else []), **({"target": y, "losses": losses} if last else {}))
        if last:
            torch.testing.assert_close(found, output)
            assert len(losses) == 16
        for part, piece in pieces.items():
            check_close(piece, stages_of(wanted, count)[part], gradients=True)
        dist.barrier()


@on_ranks(*SIZES, limit=120)
def test_fsdp2(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    model = made_model()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    train(model, rank)
    check_like_alone(model, size)
    half = fully_shard(made_model(), mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                                               reduce_dtype=torch.bfloat16))
    loss_of(half, rank, 0).backward()


@on_ranks(*SIZES, limit=120)
def test_tensor_parallel(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    whole = torch.arange(24.0).reshape(8, 3)
    spread = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal(spread.full_tensor(), whole)
    assert torch.equal(spread.redistribute(mesh, [Shard(1)]).redistribute(mesh, [Replicate()]).to_local(), whole)
    assert torch.equal((spread + spread).sum().full_tensor(), whole.sum() * 2)
    model = made_model()
    wanted = model(batch(0, 0))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    torch.testing.assert_close(model(batch(0, 0)), wanted)


# The first compiler takes seconds for each program.
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"] if LONG else ["aot_eager"])
@on_ranks(2, limit=120)
def test_compiled_programs(rank, size, backend):
    world = dist.group.WORLD

    @torch.compile(backend=backend, fullgraph=True)
    def functional(x):
        y = funcol.all_reduce(x * 2, "sum", world)
        z = funcol.all_gather_tensor(y + rank, 0, world)
        return funcol.reduce_scatter_tensor(z, "sum", 0, world) - 1, funcol.all_to_all_single(z * (rank + 1), None, None, world)

    @torch.compile(backend=backend, fullgraph=True)
    def in_place(x):
        y = x + 1
        dist.all_reduce(y)
        z = torch.empty(size * y.shape[0])
        dist.all_gather_into_tensor(z, y * (rank + 1))
        return z.sum()

    total = size * (size + 1) / 2
    for count in (2 * size, 4 * size):
        x = torch.full((count,), rank + 1.0)
        mine, turned = functional(x)
        assert torch.equal(mine, torch.full((count,), size * (2 * total + rank) - 1))
        assert torch.equal(turned, ((2 * total + rank) * torch.arange(1.0, size + 1)).repeat_interleave(count))
        assert in_place(x) == count * total * (total + size)
    model = made_model()
    train(torch.compile(DistributedDataParallel(model), backend=backend), rank)
    check_like_alone(model, size)


@on_ranks(*SIZES, limit=120)
def test_loaders(rank, size):
    numbers = TensorDataset(torch.arange(24.0))  # as many for each rank
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    for persistent in (False, True):
        sampler = DistributedSampler(numbers, shuffle=True, seed=4)
        loader = DataLoader(numbers, 3, sampler=sampler, num_workers=2, multiprocessing_context="fork",
                            persistent_workers=persistent)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            seen = torch.zeros(24)
            for (x,) in loader:  # the workers of the loader live while this rank communicates
                model(x[:, None]).sum().backward()
                dist.all_reduce(x.clone())
                seen[x.long()] += 1
            dist.all_reduce(seen)
            assert (seen == 1).all()
    check_replicas(model, gradients=True)


@on_ranks(*SIZES, limit=120)
def test_functional(rank, size):
    world = dist.group.WORLD
    x = torch.full((4, 2), rank + 1.0)
    total = size * (size + 1) / 2
    assert (funcol.all_reduce(x, "sum", world) == total).all()
    assert (funcol.all_reduce(x, "avg", world) == total / size).all()
    assert torch.equal(funcol.all_gather_tensor(x, 0, world)[::4, 0], torch.arange(1.0, size + 1))
    assert funcol.all_gather_tensor(x, 1, world).shape == (4, 2 * size)
    assert (funcol.reduce_scatter_tensor(torch.ones(size * 2) * (rank + 1), "sum", 0, world) == total).all()
    assert all((t == total).all() for t in funcol.all_reduce_coalesced([x, x + 0], "sum", world))
    gathered = funcol.all_gather_into_tensor_coalesced([x, torch.ones(1)], world)
    assert gathered[0].shape == (4 * size, 2) and gathered[1].shape == (size,)
    scattered = funcol.reduce_scatter_tensor_coalesced([torch.ones(size), torch.ones(2 * size)], "sum", [0, 0], world)
    assert (scattered[0] == size).all() and scattered[1].shape == (2,)
    moved = funcol.all_to_all_single(torch.full((size,), float(rank)), [1] * size, [1] * size, world)
    assert torch.equal(funcol.wait_tensor(moved), torch.arange(float(size)))
    assert (funcol.broadcast(x, size - 1, world) == size).all()
    pairs = funcol.permute_tensor(torch.full((2,), float(rank)), [(r + 1) % size for r in range(size)], world)
    assert (pairs == (rank - 1) % size).all()


@on_ranks(2, limit=60)
def test_objects_checkpoints_and_sub_groups(rank, size, tmp_path):
    every = [None] * size
    dist.all_gather_object(every, {"rank": rank, "text": "x" * 1000 * rank})
    assert [one["rank"] for one in every] == list(range(size)) and len(every[-1]["text"]) == 1000 * (size - 1)
    into = [None] * size if rank == 1 else None
    dist.gather_object(("a", rank), into, dst=1)
    assert rank != 1 or into == [("a", r) for r in range(size)]
    objects = [rank, "zero", None] if rank == 0 else [None] * 3
    dist.broadcast_object_list(objects, 0)
    assert objects == [0, "zero", None]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert mine == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list(["letter", 5], 1)
    elif rank == 1:
        received = [None, None]
        dist.recv_object_list(received, 0)
        assert received == ["letter", 5]
    # A checkpoint that all ranks write and read, and groups of groups.
    state = {"weights": torch.full((3,), 4.0), "step": 3}
    checkpoint.save(state, checkpoint_id=f"{tmp_path}/saved")
    state = {"weights": torch.zeros(3), "step": 0}
    checkpoint.load(state, checkpoint_id=f"{tmp_path}/saved")
    assert (state["weights"] == 4).all() and state["step"] == 3
    small, _ = dist.new_subgroups(1)
    assert small.size() == 1
    mine = dist.new_group([0, 1], use_local_synchronization=True)
    dist.barrier(mine)


@on_ranks(2, TORCH_DISTRIBUTED_DEBUG="DETAIL")
def test_the_wrapper_of_detail_mode_takes_it():
    assert dist.get_debug_level() == dist.DebugLevel.DETAIL
    rank, size = begin()
    x = torch.ones(3)
    dist.all_reduce(x)
    assert (x == size).all()
    every = [torch.empty(3) for _ in range(size)]
    dist.all_gather(every, x)
    dist.all_gather_single(torch.empty(3 * size), x)
    dist.reduce_scatter_single(torch.empty(3), torch.ones(3 * size))
    dist.all_to_all_single(torch.empty(size), torch.ones(size))
    dist.batch_isend_irecv([dist.P2POp(dist.isend, x, (rank + 1) % size),
                            dist.P2POp(dist.irecv, every[0], (rank - 1) % size)])[0].wait()
    train(DistributedDataParallel(made_model()), rank, 2)
    dist.barrier()
    with pytest.raises(RuntimeError, match="Detected mismatch between collectives on ranks"):
        dist.all_reduce(torch.ones(3 + rank))
    os._exit(0)  # the helper's threads of Gloo are not ours to end
