"""The smallest job: every process joins, says who it is, and all wait for each other.

    tuttirun --nproc-per-node 4 01_hello.py
"""

import tutti.distributed as dist

dist.init_process_group()
print(f"hello from rank {dist.get_rank()} of {dist.get_world_size()}")
dist.barrier()
dist.destroy_process_group()
