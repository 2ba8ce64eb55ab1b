"""Point to point: a tensor goes round a ring of ranks, first with send and recv, which wait, then with isend and
irecv, which do not. Each rank adds what it holds, so everybody ends with the sum over all ranks.

    torchrun --nproc-per-node 4 01_point_to_point.py
"""

import torch
import torch.distributed as dist

import tutti.torch  # registers the backend

dist.init_process_group("tutti")
rank, size = dist.get_rank(), dist.get_world_size()
right, left = (rank + 1) % size, (rank - 1) % size

# Blocking: rank 0 sends first, and all others receive first. If all sent first, large tensors would wait for ever.
baton = torch.zeros(3)
if rank == 0:
    baton += rank + 1
    dist.send(baton, right)
    dist.recv(baton, left)
else:
    dist.recv(baton, left)
    baton += rank + 1
    dist.send(baton, right)
if rank == 0:
    assert baton.tolist() == [size * (size + 1) / 2] * 3

# Without waiting: all send at once. A buffer must not be written before its send is done, so there are two.
held = torch.full((250_000,), rank + 1.0)
total = held.clone()
for _ in range(size - 1):
    arriving = torch.empty_like(held)
    works = [dist.isend(held, right), dist.irecv(arriving, left)]
    for work in works:
        work.wait()
    total += arriving
    held = arriving
assert (total == sum(range(1, size + 1))).all()

# The sender need not be known.
if rank == 0:
    reports = {}
    for _ in range(size - 1):
        report = torch.empty(1)
        source = dist.recv(report)
        reports[source] = report.item()
    assert reports == {other: 10.0 * other for other in range(1, size)}
    print(f"{size} ranks: {baton[0]:.0f} went round the ring")
else:
    dist.send(torch.tensor([10.0 * rank]), 0)
dist.destroy_process_group()
