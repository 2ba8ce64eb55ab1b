"""Sends each piece of work to the rank that is in charge of it, and the results back: all_to_all with uneven splits,
as layers of experts and distributed tables do it. Nobody knows beforehand how much comes from whom, so the counts go
first.

    tuttirun --nproc-per-node 4 15_routing.py
"""

import numpy as np

import tutti.distributed as dist

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()

# This rank's work: numbers as they come. Number x belongs to rank x % size.
i = np.arange(50 + 10 * rank)
work = (i * i + 7 * rank) % 1000

# All pieces for one rank must lie together; `order` says where each piece came from.
order = np.argsort(work % size, kind="stable")
to = np.bincount(work % size, minlength=size)
counts = np.empty_like(to)
dist.all_to_all_single(counts, to)

mine = np.empty(counts.sum(), work.dtype)
dist.all_to_all_single(mine, work[order], counts.tolist(), to.tolist())
assert (mine % size == rank).all(), mine

mine = 2 * mine + 1  # what this rank is in charge of

# Back the same way: what came from a rank goes to it, so the splits change places.
answers = np.empty_like(work)
dist.all_to_all_single(answers, mine, to.tolist(), counts.tolist())
assert (answers == 2 * work[order] + 1).all(), answers

print(f"rank {rank} sent {work.size} numbers and worked on {mine.size}: all answers are right")
dist.destroy_process_group()
