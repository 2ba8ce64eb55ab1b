"""Ranks as processes without a launcher.

    python 09_spawn.py
"""

import os
import tempfile

import numpy as np

import tutti.distributed as dist
import tutti.multiprocessing as mp


def average(values: list[float]) -> float:
    """On each rank of a world that is there already."""
    mine = np.array([values[dist.get_rank()]])
    dist.all_reduce(mine, op=dist.ReduceOp.AVG)
    return float(mine[0])


def work(rank: int, size: int, file: str) -> None:
    """As programs for torch.multiprocessing do it: the world is made by the function itself."""
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=size)
    total = np.array([rank + 1.0])
    dist.all_reduce(total)
    assert total[0] == 6
    if rank == 0:
        print(f"{size} processes, sum {total[0]:g}")
    dist.destroy_process_group()


def fail(rank: int) -> None:
    if rank == 1:
        raise ValueError("no coffee")
    dist.barrier()


if __name__ == "__main__":
    # A function on the ranks of a new world; its results come back.
    print("dist.run:", dist.run(average, 3, args=([1.0, 2.0, 6.0],)))

    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, args=(3, os.path.join(folder, "meet")), nprocs=3)

    # The error of a process is told here, and the others are ended.
    try:
        mp.spawn(fail, nprocs=2)
    except mp.ProcessRaisedException as error:
        print(f"process {error.error_index} failed:", str(error).strip().splitlines()[-1])
    else:
        raise AssertionError("nobody failed")
