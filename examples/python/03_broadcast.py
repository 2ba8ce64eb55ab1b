"""broadcast: one rank's values for everybody: an array, or any objects.

    tuttirun --nproc-per-node 4 03_broadcast.py
"""

import numpy as np

import tutti.distributed as dist

dist.init_process_group()
rank, last = dist.get_rank(), dist.get_world_size() - 1

# Settings that only rank 0 knows.
settings: list[dict[str, float] | None] = [{"epochs": 20, "learning_rate": 0.5}] if rank == 0 else [None]
dist.broadcast_object_list(settings, src=0)

# The source may be any rank.
ticket = np.array([rank])
dist.broadcast(ticket, src=last)

print(f"rank {rank}: {settings[0]}, ticket {ticket[0]}")
assert settings == [{"epochs": 20, "learning_rate": 0.5}] and ticket[0] == last
dist.destroy_process_group()
