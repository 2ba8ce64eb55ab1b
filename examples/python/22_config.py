"""Broadcast of a config: rank 0 alone reads it, and no other rank knows how long it is.

    tuttirun --nproc-per-node 4 22_config.py
"""

import tutti.distributed as dist

CONFIG = {"steps": 100, "rate": 0.2}  # as out of a file

dist.init_process_group(or_alone=True)
box = [CONFIG if dist.get_rank() == 0 else None]
dist.broadcast_object_list(box, src=0)
assert box == [CONFIG]
print(f"rank {dist.get_rank()} has {box[0]}")
dist.destroy_process_group()
