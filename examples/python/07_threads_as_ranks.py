"""Ranks as threads of one process, over the same shared memory as processes: for tests, for debuggers, and
for a first try without a launcher. Each thread is given its world; the functions of tutti.distributed,
which know one world per process, are not for this.

    python 07_threads_as_ranks.py
"""

import numpy as np

import tutti
from tutti.multiprocessing import run_threads


def body(world: tutti.ProcessGroup) -> float:
    values = np.array([1.0, world.rank])
    world.all_reduce(values)
    assert values.tolist() == [4, 6]
    if world.rank == 0:
        print(f"{values[0]:g} threads, sum of their ranks {values[1]:g}")
    return float(values[1])


assert run_threads(body, 4) == [6] * 4
