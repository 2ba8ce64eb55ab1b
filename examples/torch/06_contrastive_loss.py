"""A contrastive loss over the pairs of all ranks. Two views of a row must be closer to each other than to the rows of
any rank. all_gather gives embeddings that have no graph, so each rank puts its own live tensor back into its slot.
All ranks compute the whole loss, each gets the gradient of its own rows, and the sum of these is the true one.

    torchrun --nproc-per-node 4 06_contrastive_loss.py
"""

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy, normalize

import tutti.torch  # registers the backend

ROWS = 6  # on each rank
STEPS = 30
TEMPERATURE = 0.2


def views_of(which, step):
    """Two views of a rank's rows, which differ by noise."""
    rows = torch.randn(ROWS, 8, generator=torch.Generator().manual_seed(which))
    noise = torch.randn(2, ROWS, 8, generator=torch.Generator().manual_seed(1000 * (step + 1) + which))
    return rows + 0.2 * noise


def embed(model, views):
    """Both views of each row, of length 1."""
    return normalize(model(views), dim=-1)


def loss_of(left, right):
    """Row i of one view belongs to row i of the other."""
    scores = left @ right.T / TEMPERATURE
    own = torch.arange(len(left))
    return (cross_entropy(scores, own) + cross_entropy(scores.T, own)) / 2


def of_all_ranks(mine):
    """The embeddings of all ranks; the own ones with their graph."""
    with torch.no_grad():
        parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, mine)
    parts[dist.get_rank()] = mine
    return torch.cat(parts, dim=1)


def made_model():
    torch.manual_seed(4)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))


dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
model, alone = made_model(), made_model()
optimizers = [torch.optim.SGD(each.parameters(), lr=0.4) for each in (model, alone)]
losses = []
for step in range(STEPS):
    loss = loss_of(*of_all_ranks(embed(model, views_of(rank, step))))
    losses.append(loss.item())
    # One process that embeds the rows of all ranks.
    whole = loss_of(*embed(alone, torch.cat([views_of(which, step) for which in range(size)], dim=1)))
    for optimizer, which in zip(optimizers, (loss, whole)):
        optimizer.zero_grad()
        which.backward()
    for ours, theirs in zip(model.parameters(), alone.parameters()):
        dist.all_reduce(ours.grad)  # the sum: DistributedDataParallel would give the average
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-5)
    torch.testing.assert_close(loss, whole, rtol=1e-3, atol=1e-5)
    for optimizer in optimizers:
        optimizer.step()
assert losses[-1] < losses[0] / 2, losses
if rank == 0:
    print(f"{size} ranks x {ROWS} pairs: loss {losses[0]:.3f} -> {losses[-1]:.3f}")
dist.destroy_process_group()
