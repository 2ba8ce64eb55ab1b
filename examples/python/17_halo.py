"""Halo exchange: heat on a plate that a grid of ranks shares. Each rank has a block of cells and, around it, a halo of
its neighbours' outermost cells. At the borders of the plate there is no neighbour, and the halo stays cold.

    tuttirun --nproc-per-node 4 17_halo.py
"""

import numpy as np

import tutti.distributed as dist

ROWS, COLUMNS, STEPS = 12, 9, 100  # of each rank


def spread(cells: np.ndarray) -> None:
    """Each inner cell becomes the mean of its four neighbours."""
    cells[1:-1, 1:-1] = (cells[:-2, 1:-1] + cells[2:, 1:-1] + cells[1:-1, :-2] + cells[1:-1, 2:]) / 4


dist.init_process_group()
grid = dist.cart([0, 0])  # as square as the number of ranks allows
cells = np.zeros((ROWS + 2, COLUMNS + 2))
if dist.get_rank() == 0:
    cells[ROWS, COLUMNS] = 1000

# Into the halo: from the rows above and below, from the columns left and right; and out of the block: the outermost
# cells on these sides.
inner = slice(1, -1)
halo = [cells[0, inner], cells[-1, inner], cells[inner, 0], cells[inner, -1]]
edges = [cells[1, inner], cells[-2, inner], cells[inner, 1], cells[inner, -2]]
for _ in range(STEPS):
    for work in grid.neighbor_all_to_all(halo, edges):
        work.wait()
    spread(cells)

# The same on one rank gives the same numbers.
plate = np.zeros((grid.dims[0] * ROWS + 2, grid.dims[1] * COLUMNS + 2))
plate[ROWS, COLUMNS] = 1000
for _ in range(STEPS):
    spread(plate)
row, column = grid.coords()
ours = plate[row * ROWS:(row + 1) * ROWS + 2, column * COLUMNS:(column + 1) * COLUMNS + 2]
assert (cells[inner, inner] == ours[inner, inner]).all()
print(f"rank {dist.get_rank()} of {grid.dims[0]} x {grid.dims[1]}: as on one")
dist.destroy_process_group()
