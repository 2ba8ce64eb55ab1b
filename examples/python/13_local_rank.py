"""A program for the launcher that takes its local rank either way: from the environment, or from an argument,
as programs of torch.distributed.launch's time do, whose launcher spelled it with a dash or an underscore.

    tuttirun --nproc-per-node 3 13_local_rank.py
    tuttirun --pass-local-rank --nproc-per-node 3 13_local_rank.py    # gets --local-rank=K
    tuttirun --pass-local-rank --nproc_per_node 3 13_local_rank.py    # gets --local_rank=K

The local rank counts the processes of one host. It says which GPU or which cores are ours, one process for
each. It never decides who writes a file that all hosts share: there is a local rank 0 on every host. That is
rank 0's work.
"""

import argparse
import os
import sys

import numpy as np

import tutti.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--local-rank", "--local_rank", type=int)
parser.add_argument("--expect", choices=["argument", "environment"], help="for the tests of this example")
options = parser.parse_args()
if options.local_rank is not None:
    local, told_by = options.local_rank, "argument"
else:
    # Of tuttirun; of the mpirun of Open MPI; of that of MPICH and Intel MPI.
    names = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
    found = next((os.environ[name] for name in names if name in os.environ), None)
    if found is None:
        sys.exit("no local rank: start this program with tuttirun")
    local, told_by = int(found), "environment"

dist.init_process_group()
print(f"rank {dist.get_rank()} takes device {local} (told by the {told_by})")

# On one host every local rank is there once.
everybody = np.empty(dist.get_world_size(), int)
dist.all_gather_into_tensor(everybody, np.array([local]))
assert everybody.tolist() == list(range(dist.get_world_size()))
assert options.expect in (None, told_by), told_by
dist.destroy_process_group()
