"""One of two different programs that meet without a launcher: this one serves the store, if there is one to
serve, and ends as soon as it has met the other. Start them in any order:

    python leaves.py tcp://127.0.0.1:29511 &
    python stays.py tcp://127.0.0.1:29511

or both with file:///shared/rendezvous-7, or with env:// and RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT in the
environment.
"""

import sys

import tutti.distributed as dist

method = sys.argv[1] if len(sys.argv) > 1 else "env://"
# With env:// RANK and WORLD_SIZE say it.
rank, size = (-1, -1) if method == "env://" else (0, 2)
dist.init_process_group(init_method=method, timeout=20, rank=rank, world_size=size)
assert dist.get_world_size() == 2
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has met the other and goes")
dist.destroy_process_group()
