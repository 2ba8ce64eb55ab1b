"""Each collective with rows, then with columns of a matrix. A row lies in one piece; a column is a view with
strides, every n-th element, used where it lies: nobody copies it together.

    tuttirun --nproc-per-node 4 11_rows_and_columns.py
"""

import numpy as np

import tutti.distributed as dist

EMPTY = -1

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
middle = size // 2  # the line that is used where there is one
places = np.arange(size)
# numbers[r]: what rank r puts into a line.
numbers = 10 * np.arange(size)[:, np.newaxis] + places
total = numbers.sum(axis=0)


def tour(form: str) -> None:
    """Each operation with `form` as the lines of a matrix."""

    def matrix() -> tuple[np.ndarray, list[np.ndarray]]:
        """An empty one; its lines, one for each rank, are views of it."""
        cells = np.full((size, size), EMPTY)
        return cells, list(cells if form == "rows" else cells.T)

    def with_line(values: np.ndarray | int) -> tuple[np.ndarray, list[np.ndarray]]:
        cells, lines = matrix()
        lines[middle][:] = values
        return cells, lines

    def check(what: str, cells: np.ndarray, expected: np.ndarray) -> None:
        """`expected`: line after line."""
        assert ((cells if form == "rows" else cells.T) == expected).all(), (what, form, rank, cells)
        if rank == 0:
            print(f"  {what}", *("".join(f"{cell:5}" for cell in row) for row in cells), sep="\n")

    def only(values: np.ndarray) -> np.ndarray:
        """Nothing but the line in the middle was written."""
        expected = np.full((size, size), EMPTY)
        expected[middle] = values
        return expected

    if rank == 0:
        print(form)
    cells, lines = with_line(70 + places if rank == 0 else EMPTY)
    dist.broadcast(lines[middle], src=0)
    check("broadcast", cells, only(70 + places))

    cells, lines = with_line(numbers[rank])
    dist.all_reduce(lines[middle])
    check("all_reduce", cells, only(total))

    cells, lines = with_line(numbers[rank])
    dist.reduce(lines[middle], dst=0)
    check("reduce", cells, only(total if rank == 0 else numbers[rank]))

    _, own = with_line(numbers[rank])
    cells, lines = matrix()
    dist.gather(own[middle], lines if rank == 0 else None, dst=0)
    check("gather", cells, numbers if rank == 0 else np.full((size, size), EMPTY))

    part, parts = matrix()
    dist.scatter(parts[middle], lines if rank == 0 else None, src=0)
    check("scatter", part, only(numbers[rank]))

    cells, lines = matrix()
    dist.all_gather(lines, own[middle])
    check("all_gather", cells, numbers)

    # Every rank has the same lines now, so line r of the sum is n times as much.
    part, parts = matrix()
    dist.reduce_scatter(parts[middle], lines)
    check("reduce_scatter", part, only(size * numbers[rank]))

    # Line r goes to rank r: rank s has line s of everybody.
    _, given = matrix()
    for line, values in zip(given, numbers):
        line[:] = 100 * rank + values
    cells, lines = matrix()
    dist.all_to_all(lines, given)
    check("all_to_all", cells, 100 * np.arange(size)[:, np.newaxis] + numbers[rank])


tour("rows")
tour("columns")
dist.destroy_process_group()
