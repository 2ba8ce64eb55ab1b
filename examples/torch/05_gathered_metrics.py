"""Metrics of a whole data set that no rank has seen as a whole. Counts are gathered with all_gather under no_grad,
and so are predictions, padded to the longest share. Metrics are no part of the training: nothing tracks them.

    torchrun --nproc-per-node 4 05_gathered_metrics.py
"""

import torch
import torch.distributed as dist

import tutti.torch  # registers the backend

ROWS = 101  # which most numbers of ranks do not divide


def gathered(tensor):
    """The tensors of all ranks; equal shapes."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return parts


def gathered_rows(tensor):
    """The rows of all ranks, though no two may have as many."""
    counts = [int(count) for count in gathered(torch.tensor(len(tensor)))]
    padded = tensor.new_zeros(max(counts), *tensor.shape[1:])
    padded[:len(tensor)] = tensor
    return torch.cat([part[:count] for part, count in zip(gathered(padded), counts)])


dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(2)  # all ranks have the same data and model, and evaluate a share of it
x, wanted = torch.randn(ROWS, 4), torch.randint(3, (ROWS,))
model = torch.nn.Linear(4, 3)
bounds = [ROWS * which // size for which in range(size + 1)]
own = slice(bounds[rank], bounds[rank + 1])

with torch.no_grad():
    outputs = model(x[own])
    losses = torch.nn.functional.cross_entropy(outputs, wanted[own], reduction="none")
    found = outputs.argmax(1)
    # Sums and counts, never averages of averages: the shares differ.
    right, loss, rows = torch.stack(gathered(torch.tensor(
        [(found == wanted[own]).sum(), losses.sum(), len(found)], dtype=torch.float64))).sum(0).tolist()
    everything = gathered_rows(found)

    alone = model(x)
    assert rows == ROWS and right == (alone.argmax(1) == wanted).sum()
    assert abs(loss / rows - torch.nn.functional.cross_entropy(alone, wanted).item()) < 1e-5
    assert torch.equal(everything, alone.argmax(1)) and not everything.requires_grad
    confusion = torch.zeros(3, 3, dtype=torch.int64)
    confusion.index_put_((wanted, everything), torch.tensor(1), accumulate=True)
    assert confusion.sum() == ROWS and confusion.trace() == right
if rank == 0:
    print(f"{size} ranks, {ROWS} rows: accuracy {right / rows:.3f}, loss {loss / rows:.3f}")
dist.destroy_process_group()
