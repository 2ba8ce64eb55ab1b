"""Sub-groups: some ranks among themselves. Every rank of the world calls new_group with the same list.
As in torch.distributed, ranks in calls stay those of the world. A sub-group opens no connection and
starts no thread.

    tuttirun --nproc-per-node 4 05_sub_group.py
"""

import numpy as np

import tutti.distributed as dist

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()

even = list(range(0, size, 2))
group = dist.new_group(even)
if rank in even:
    total = np.array([rank])
    dist.all_reduce(total, group=group)
    print(f"world rank {rank} is rank {dist.get_rank(group)} of {dist.get_world_size(group)}: "
          f"sum of its world ranks {total[0]}")
    assert total[0] == sum(even)
else:
    assert dist.get_rank(group) == -1  # who is not in it
dist.barrier()  # the world works as before
dist.destroy_process_group()
