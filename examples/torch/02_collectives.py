"""The six collectives that torch's newcomers meet first. Each rank has three numbers; all of it fits on paper.

    torchrun --nproc-per-node 4 02_collectives.py
"""

import torch
import torch.distributed as dist

import tutti.torch  # registers the backend

dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
ROOT = 0


def numbers_of(which):
    """The tensor that a rank begins with."""
    return torch.tensor([1.0, 10.0, 100.0]) * (which + 1)


of_all = torch.stack([numbers_of(which) for which in range(size)])
mine = numbers_of(rank)

# One rank to all.
x = mine.clone()
dist.broadcast(x, src=size - 1)
assert torch.equal(x, of_all[-1])

# All to one, combined: the others' tensors are used up.
x = mine.clone()
dist.reduce(x, dst=ROOT, op=dist.ReduceOp.SUM)
if rank == ROOT:
    assert torch.equal(x, of_all.sum(0))

# All to all, combined; here with another operation.
x = mine.clone()
dist.all_reduce(x, op=dist.ReduceOp.MAX)
assert torch.equal(x, of_all.max(0).values)

# All to one, side by side: only the root gives room for it.
parts = [torch.empty(3) for _ in range(size)] if rank == ROOT else None
dist.gather(mine, parts, dst=ROOT)
if rank == ROOT:
    assert torch.equal(torch.stack(parts), of_all)

# One to all, a part for each.
x = torch.empty(3)
dist.scatter(x, [part * 2 for part in parts] if rank == ROOT else None, src=ROOT)
assert torch.equal(x, mine * 2)

# All to all, side by side.
parts = [torch.empty(3) for _ in range(size)]
dist.all_gather(parts, mine)
assert torch.equal(torch.stack(parts), of_all)

if rank == ROOT:
    print(f"{size} ranks: broadcast, reduce, all_reduce, gather, scatter, all_gather")
dist.destroy_process_group()
