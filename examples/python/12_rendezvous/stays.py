"""The other of two different programs (see leaves.py): it works on when its partner is gone. That is no error
for who needs nothing more from it; who does is told at once who has left.
"""

import sys

import numpy as np

import tutti
import tutti.distributed as dist

method = sys.argv[1] if len(sys.argv) > 1 else "env://"
rank, size = (-1, -1) if method == "env://" else (1, 2)
dist.init_process_group(init_method=method, timeout=20, rank=rank, world_size=size)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} has met the other")
try:
    dist.all_reduce(np.array([1, 2, 3]))
except tutti.NetworkError as error:
    print(error)
    assert error.code == "peer_left" and error.culprit == 0
else:
    raise AssertionError("the other has called nothing")
