"""Data parallelism by hand: what DistributedDataParallel does, without it. The data set is divided among the ranks,
all begin with rank 0's weights, and after each backward the gradients are averaged, so all replicas stay equal.

    torchrun --nproc-per-node 4 04_average_gradients.py
"""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Subset, TensorDataset

import tutti.torch  # registers the backend

BATCH = 24  # over all ranks
EPOCHS = 8


def spirals():
    """Points on three arms of a spiral, and which arm each is on."""
    draw = torch.Generator().manual_seed(1)
    turn = torch.rand(240, generator=draw)
    arm = torch.arange(240) % 3
    angle = 4 * turn + arm * 2.1 + 0.1 * torch.randn(240, generator=draw)
    return TensorDataset(torch.stack([turn * angle.cos(), turn * angle.sin()], 1), arm)


def share_of(data, which, count):
    """Each rank's part of every batch: rows which, which + count, ..."""
    return Subset(data, range(which, len(data), count))


def made_model():
    return torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))


def train(model, loader, average_gradients):
    """The rows of a loader, again and again."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            average_gradients(model)
            optimizer.step()


def average_over_ranks(model):
    """All are started before the first is waited for."""
    works = [dist.all_reduce(p.grad, op=dist.ReduceOp.AVG, async_op=True) for p in model.parameters()]
    for work in works:
        work.wait()


dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(100 + rank)  # so all begin differently,
model = made_model()
for p in model.parameters():
    dist.broadcast(p.detach(), src=0)  # and are made equal
torch.manual_seed(100)
alone = made_model()

data = spirals()
train(model, DataLoader(share_of(data, rank, size), BATCH // size), average_over_ranks)

# One process with whole batches takes the same steps.
train(alone, DataLoader(data, BATCH), lambda _: None)
for ours, theirs in zip(model.parameters(), alone.parameters()):
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)

# All replicas are equal to the last bit.
mine = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
replicas = torch.empty(size, len(mine))
dist.all_gather_into_tensor(replicas, mine)
assert (replicas == replicas[0]).all()
loss = cross_entropy(model(data.tensors[0]), data.tensors[1]).item()
assert loss < 0.5, loss  # by chance it would be 1.1
if rank == 0:
    print(f"{size} ranks, {EPOCHS} epochs: loss {loss:.3f} of {len(data)} points")
dist.destroy_process_group()
