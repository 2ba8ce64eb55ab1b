"""A tour: every operation once, as small tables. Rank r gives r, or r * 10 + index. Each result is checked.

    tuttirun --nproc-per-node 4 10_every_operation.py
"""

from collections.abc import Callable

import numpy as np

import tutti.distributed as dist

dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
total = size * (size - 1) // 2  # the sum of the ranks
ranks = list(range(size))


def own() -> np.ndarray:
    """The tensor that rank r gives: r."""
    return np.full(1, rank)


def numbers() -> np.ndarray:
    """Where there is something for each rank: r * 10 + index."""
    return rank * 10 + np.arange(size)


def show(name: str, before: np.ndarray | None, after: np.ndarray | None,
         expected: Callable[[int], list[int]]) -> None:
    """Prints the input and output of each rank on rank 0; `expected(rank)` is the output that it must have."""
    got = [] if after is None else after.tolist()
    assert got == expected(rank), (name, rank, got)
    lines = [None] * size if rank == 0 else None
    had = [] if before is None else before.tolist()
    dist.gather_object(f"  rank {rank} |{text(had)}  ->{text(got)}", lines, dst=0)
    if lines is not None:
        print(f"\n{name}", *lines, sep="\n")


def text(values: list[int]) -> str:
    return "".join(f"{value:4}" for value in values) or "   -"


value = np.array([-1])
sent = dist.isend(own(), (rank + 1) % size)
dist.recv(value, (rank - 1) % size)
sent.wait()
show("send to the next rank, recv from the one before", own(), value, lambda r: [(r - 1) % size])

sent = dist.isend(own(), (rank + 1) % size)
value = dist.probe((rank - 1) % size).recv(np.array([-1]))
sent.wait()
show("probe, for a message of unknown size", own(), value, lambda r: [(r - 1) % size])

value = own()
dist.broadcast(value, src=0)
show("broadcast from rank 0", own(), value, lambda r: [0])

value = own()
dist.all_reduce(value)
show("all_reduce, SUM", own(), value, lambda r: [total])

value = own()
dist.all_reduce(value, op=dist.ReduceOp.MAX)
show("all_reduce, MAX", own(), value, lambda r: [size - 1])

value = own()
dist.reduce(value, dst=0)
show("reduce to rank 0, SUM", own(), value, lambda r: [total] if r == 0 else [r])

value = own()
dist.scan(value)
show("scan, SUM: of the ranks up to each", own(), value, lambda r: [r * (r + 1) // 2])

value = own()
dist.scan(value, exclusive=True)
show("exclusive scan: without its own", own(), value, lambda r: [r * (r - 1) // 2])

row = np.empty(size, int)
dist.all_gather_into_tensor(row, own())
show("all_gather", own(), row, lambda r: ranks)

row = np.empty(size, int)
dist.gather(own(), list(row.reshape(size, 1)) if rank == 0 else None, dst=0)
show("gather on rank 0", own(), row if rank == 0 else None, lambda r: ranks if r == 0 else [])

value = np.empty(1, int)
given = numbers() if rank == 0 else None
dist.scatter(value, list(given.reshape(size, 1)) if given is not None else None, src=0)
show("scatter from rank 0", given, value, lambda r: [r])

value = np.empty(1, int)
dist.reduce_scatter_tensor(value, numbers())
show("reduce_scatter, SUM", numbers(), value, lambda r: [total * 10 + size * r])

row = np.empty(size, int)
dist.all_to_all_single(row, numbers())
show("all_to_all", numbers(), row, lambda r: [s * 10 + r for s in ranks])

# Blocks of different sizes: rank r gives s + 1 numbers to rank s.
given = np.repeat(own(), total + size)
row = np.empty(size * (rank + 1), int)
dist.all_to_all_single(row, given, output_split_sizes=[rank + 1] * size,
                       input_split_sizes=[s + 1 for s in ranks])
show("all_to_all with splits", given, row, lambda r: [s for s in ranks for _ in range(r + 1)])

# Any objects.
words: list[object] = [None] * size
dist.all_gather_object(words, {"rank": rank, "word": "tutti"[: rank + 1]})
assert words == [{"rank": r, "word": "tutti"[: r + 1]} for r in ranks]
if rank == 0:
    print("\nall_gather_object", *(f"  {word}" for word in words), sep="\n")

dist.barrier()
if rank == 0:
    print("\nall as it must be")
dist.destroy_process_group()
