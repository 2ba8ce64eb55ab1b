#!/usr/bin/env python3
"""The cost of a blocking 8-byte all_reduce of two ranks from Python, and through torch, beside C++.

    cmake --build build/python --target python_overhead_worker
    PYTHONPATH=build/python/python build/venv/bin/python apps/bench/python/overhead.py \
        build/python/bin/python_overhead_worker

All workers live through the whole measurement and sleep while it is not their turn; the variants take
turns, in another order each round. Printed: medians over the rounds. With torch and tutti-torch installed
there are also `tutti.torch.all_reduce_`, the operator that it calls, `dist.all_reduce` through the
compiled plug-in, and the same through the Python fallback.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import os
import pkgutil
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

from team import Team


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


def of_arrays() -> dict[str, Callable[[], Any]]:
    """all_reduce of tutti itself, of each kind of memory."""
    import tutti
    world = tutti.init_process_group()
    return {kind: functools.partial(world.all_reduce, value) for kind, value in arrays().items()}


def of_torch(compiled: bool) -> dict[str, Callable[[], Any]]:
    """all_reduce of torch.distributed, through the compiled plug-in or the Python fallback."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    value = torch.zeros(1, dtype=torch.float64)
    if not compiled:
        found = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: (
            None if name.startswith("_tutti_torch") else found(name, *rest))
        warnings.simplefilter("ignore")
    import tutti.torch
    dist.init_process_group("tutti")
    if not compiled:
        return {"dist, Python fallback": lambda: dist.all_reduce(value)}
    operator, group = torch.ops.tutti.all_reduce_.default, dist.group.WORLD.group_name
    return {"dist, plug-in": lambda: dist.all_reduce(value), "all_reduce_": lambda: tutti.torch.all_reduce_(value),
            "torch.ops": lambda: operator(value, "sum", group)}


SIDES: dict[str, Callable[[], dict[str, Callable[[], Any]]]] = {
    "arrays": of_arrays, "plug-in": lambda: of_torch(True), "form": lambda: of_torch(False)}


def sides() -> list[str]:
    """Those that can be measured here."""
    has_torch = importlib.util.find_spec("torch") and any(
        name.startswith("_tutti_torch") for _, name, _ in pkgutil.iter_modules())
    return list(SIDES) if has_torch else ["arrays"]


def work(side: str) -> None:
    """A Python rank: answers `variant<TAB>calls` with nanoseconds for one call."""
    kinds = SIDES[side]()
    print("\t".join(sorted(kinds)), flush=True)
    for line in sys.stdin:
        kind, calls = line.rstrip("\n").split("\t")
        call, count = kinds[kind], int(calls)
        for _ in range(count // 10):
            call()
        begin = time.perf_counter_ns()
        for _ in range(count):
            call()
        print((time.perf_counter_ns() - begin) / count, flush=True)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worker", nargs="?", help="the C++ program python_overhead_worker; none: Python alone")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--calls", type=int, default=20000)
    options = parser.parse_args()
    native = [Team([options.worker])] if options.worker else []
    teams = [Team([sys.executable, os.path.abspath(__file__), "--work", side]) for side in sides()]
    orders = {kind: (team, f"{kind}\t{options.calls}") for team in teams for kind in team.said[0].split("\t")}
    for team in native:
        orders["C++"] = (team, str(options.calls))
    times: dict[str, list[float]] = {kind: [] for kind in orders}
    for _ in range(options.rounds):
        for kind in random.sample(sorted(orders), len(orders)):
            team, order = orders[kind]
            times[kind].append(max(map(float, team.turn(order))))
    for team in (*native, *teams):
        team.end()
    for kind, seen in sorted(times.items(), key=lambda item: statistics.median(item[1])):
        line = f"{kind:22} {statistics.median(seen):8.0f} ns   {min(seen):8.0f} .. {max(seen):8.0f}"
        if native:
            more = statistics.median(a - b for a, b in zip(seen, times["C++"], strict=True))
            line += f"   in turns {more:+8.0f} ns"
        print(line)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        work(sys.argv[2])
    else:
        main()
