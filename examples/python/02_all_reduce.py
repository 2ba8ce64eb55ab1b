"""all_reduce: the arrays of all ranks are combined element by element, and everybody gets the result,
in place. Any NumPy array will do, a view with strides too.

    tuttirun --nproc-per-node 4 02_all_reduce.py
"""

import numpy as np

import tutti.distributed as dist

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()

# A sum: 1 + 2 + ... + size, and how many we are.
values = np.array([rank + 1, 1], np.float32)
dist.all_reduce(values)

# The largest.
largest = np.array([rank * rank])
dist.all_reduce(largest, op=dist.ReduceOp.MAX)

# Column 1 of a matrix of 3 x 2; column 0 stays as it is.
matrix = np.array([[-1.0, 10.0], [-1.0, 20.0], [-1.0, 30.0]])
dist.all_reduce(matrix[:, 1])

if rank == 0:
    print(f"sum {values[0]:g} of {values[1]:g} ranks, largest {largest[0]}, column {matrix[:, 1]}")
assert values[0] == size * (size + 1) // 2 and values[1] == size
assert largest[0] == (size - 1) ** 2
assert (matrix[:, 1] == np.array([10, 20, 30]) * size).all() and (matrix[:, 0] == -1).all()
dist.destroy_process_group()
