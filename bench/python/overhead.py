#!/usr/bin/env python3
"""What a blocking 8-byte all_reduce of two ranks costs from Python, beside C++.

    cmake --build build/python --target python_overhead_worker
    PYTHONPATH=build/python/python build/venv/bin/python bench/python/overhead.py \
        build/python/bin/python_overhead_worker

All workers live through the whole measurement and sleep while it is not their turn; the variants take
turns, in another order each round. Printed: medians over the rounds.
"""

from __future__ import annotations

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import time
from typing import Any


def arrays() -> dict[str, Any]:
    """The kinds of memory of 8 bytes that this installation has, holding zeros."""
    import array
    found: dict[str, Any] = {"buffer (array.array)": array.array("d", [0.0]),
                             "buffer (bytearray)": bytearray(8)}
    try:
        import numpy
        found["NumPy"] = numpy.zeros(1)
    except ImportError:
        pass
    try:
        import torch
        found["torch"] = torch.zeros(1, dtype=torch.float64)
    except ImportError:
        pass
    return found


def work() -> None:
    """A Python rank: answers `variant<TAB>calls` with nanoseconds for one call."""
    import tutti
    world = tutti.init_process_group()
    kinds = arrays()
    print("\t".join(sorted(kinds)), flush=True)
    for line in sys.stdin:
        kind, calls = line.rstrip("\n").split("\t")
        value, count = kinds[kind], int(calls)
        for _ in range(count // 10):
            world.all_reduce(value)
        begin = time.perf_counter_ns()
        for _ in range(count):
            world.all_reduce(value)
        print((time.perf_counter_ns() - begin) / count, flush=True)


class Pair:
    """Two ranks of one program, each on a CPU of its own where there are two."""

    def __init__(self, command: list[str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        cpus = sorted(os.sched_getaffinity(0))
        self.ranks = []
        for rank in range(2):
            environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=str(port), TUTTI_CPUS=str(len(cpus)))
            cpu = cpus[rank % len(cpus)]
            self.ranks.append(subprocess.Popen(["taskset", "-c", str(cpu), *command],
                                               env=environment, stdin=subprocess.PIPE,
                                               stdout=subprocess.PIPE, text=True))
        self.said = [self.line(rank) for rank in self.ranks]

    @staticmethod
    def line(rank: subprocess.Popen[str]) -> str:
        assert rank.stdout is not None
        said = rank.stdout.readline()
        if not said:
            raise SystemExit(f"a worker ended with status {rank.wait(10)}")
        return said.rstrip("\n")

    def turn(self, order: str) -> float:
        """Nanoseconds for one call: the slower rank's."""
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.write(order + "\n")
            rank.stdin.flush()
        return max(float(self.line(rank)) for rank in self.ranks)

    def end(self) -> None:
        """They end when they hear no more."""
        for rank in self.ranks:
            assert rank.stdin is not None
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait(30)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worker", help="the C++ program python_overhead_worker")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=20000)
    options = parser.parse_args()
    native = Pair([options.worker])
    python = Pair([sys.executable, os.path.abspath(__file__), "--work"])
    kinds = python.said[0].split("\t")
    times: dict[str, list[float]] = {kind: [] for kind in ["C++", *kinds]}
    for _ in range(options.rounds):
        for kind in random.sample(sorted(times), len(times)):
            times[kind].append(native.turn(str(options.calls)) if kind == "C++" else
                               python.turn(f"{kind}\t{options.calls}"))
    native.end()
    python.end()
    base = statistics.median(times["C++"])
    for kind, seen in times.items():
        middle = statistics.median(seen)
        more = statistics.median(a - b for a, b in zip(seen, times["C++"], strict=True))
        print(f"{kind:22} {middle:8.0f} ns   {min(seen):8.0f} .. {max(seen):8.0f}"
              f"   {middle - base:+8.0f} ns   (in turns {more:+.0f} ns)")


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        work()
    else:
        main()
