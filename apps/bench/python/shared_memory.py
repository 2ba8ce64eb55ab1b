#!/usr/bin/env python3
"""An all_reduce of one bucket of DistributedDataParallel in memory of the rank's own, and in memory that all ranks map.

    tuttirun --nproc-per-node 2 python apps/bench/python/shared_memory.py

It shows what sharing the buckets could win. "mapped" is the same call on mapped memory. "by hand" uses that all ranks
map the buckets of all: each rank sums one part piece by piece and writes the sums to every bucket, with a barrier before
and after, without agreement or regard for ranks that die. Printed: medians over the rounds of the slowest rank, in milliseconds, and of
the ratio to the call on memory of its own within a round.
"""

from __future__ import annotations

import argparse
import mmap
import os
import random
import statistics
import time
from collections.abc import Callable

import numpy as np

import tutti

PIECE = 1 << 16  # floats: a piece of two buckets, and its sums, stay in a second-level cache


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mib", type=float, default=25, help="size of the bucket [%(default)s]")
    parser.add_argument("--rounds", type=int, default=15, help="[%(default)s]")
    parser.add_argument("--calls", type=int, default=4, help="of each kind in a round [%(default)s]")
    return parser.parse_args()


def mapped(world: tutti.ProcessGroup, count: int) -> list[np.ndarray]:
    """The bucket of each rank, in memory that all ranks map."""
    file = os.memfd_create("bucket")
    os.ftruncate(file, 4 * count)
    found = []
    names: np.ndarray = np.zeros((world.size, 2), np.int64)
    world.all_gather(names, np.array([os.getpid(), file]))
    for rank, (pid, number) in enumerate(names):
        other = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR) if rank != world.rank else os.dup(file)
        found.append(np.frombuffer(mmap.mmap(other, 4 * count), np.float32))
        os.close(other)
    world.barrier()
    os.close(file)
    return found


def by_hand(world: tutti.ProcessGroup, buckets: list[np.ndarray]) -> None:
    """The sum of all buckets, in each."""
    count = len(buckets[0])
    begin, end = (count * part // world.size for part in (world.rank, world.rank + 1))
    world.barrier()
    for low in range(begin, end, PIECE):
        parts = [bucket[low:min(end, low + PIECE)] for bucket in buckets]
        for part in parts[1:]:
            np.add(parts[0], part, out=parts[0])
        for part in parts[1:]:
            np.copyto(part, parts[0])
    world.barrier()


def main() -> None:
    """Measures on all ranks; rank 0 prints."""
    options = parsed()
    world = tutti.init_process_group()
    count = int(options.mib * (1 << 18))
    buckets = mapped(world, count)
    own: np.ndarray = np.zeros(count, np.float32)
    kinds: dict[str, Callable[[], object]] = {
        "own memory": lambda: world.all_reduce(own), "mapped": lambda: world.all_reduce(buckets[world.rank]),
        "by hand": lambda: by_hand(world, buckets)}
    for call in kinds.values():  # the sums are right, and all pages are there
        for bucket in (own, buckets[world.rank]):
            bucket[:] = world.rank + 1
        call()
        bucket = own if call is kinds["own memory"] else buckets[world.rank]
        if not (bucket == world.size * (world.size + 1) / 2).all():
            raise SystemExit(f"a sum is wrong: {bucket}")
        world.barrier()
    own[:] = buckets[world.rank][:] = 0  # stays so under summing
    seen: dict[str, list[float]] = {name: [] for name in kinds}
    order = random.Random(1)  # the same on all ranks
    for _ in range(options.rounds):
        for name in order.sample(list(kinds), len(kinds)):
            world.barrier()
            began = time.perf_counter()
            for _ in range(options.calls):
                kinds[name]()
            seconds = (time.perf_counter() - began) / options.calls
            slowest: np.ndarray = np.array([seconds])
            world.all_reduce(slowest, tutti.ReduceOp.MAX)
            seen[name].append(float(slowest[0]))
    if world.rank == 0:
        print(f"{world.size} ranks, {options.mib:g} MiB{'ms':>12}{'ratio':>8}")
        for name, times in seen.items():
            ratio = statistics.median(a / b for a, b in zip(times, seen["own memory"], strict=True))
            print(f"{name:20}{1e3 * statistics.median(times):12.2f}{ratio:8.2f}")


if __name__ == "__main__":
    main()
