#!/usr/bin/env python3
"""Steps of data-parallel training through torch: DistributedDataParallel and FSDP2, with tutti and with Gloo.

    pip install .
    pip install ./bindings/torch --no-build-isolation
    python apps/bench/torch/training.py --ranks 2,8
    python apps/bench/torch/training.py --ranks 2 --trace step.json      # of one step: open it in chrome://tracing

All ranks live through the whole measurement and sleep while it is not their turn. Backends take turns in each round, in
another order. "communication" is a step minus the same step without it: for DistributedDataParallel the same with a hook
that only divides, for FSDP2 the plain model. So it is what the overlap with backward has not hidden. "buckets" is an
all_reduce of each bucket by itself, with nothing else to do. Printed: medians of milliseconds over the rounds, of the
slowest rank, and of tutti / Gloo within a round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
from all_reduce import numbers
from team import Team

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "training_worker.py")
BACKENDS = ("tutti", "gloo")
Figures = dict[str, float]


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=numbers, default="2,8", help="how many, for example 2,8 [%(default)s]")
    parser.add_argument("--layers", type=int, default=24, help="each a Linear [%(default)s]")
    parser.add_argument("--width", type=int, default=1024, help="of each; 24 of 1024 are 101 MB [%(default)s]")
    parser.add_argument("--batch", type=int, default=8, help="rows for each rank [%(default)s]")
    parser.add_argument("--rounds", type=int, default=7, help="[%(default)s]")
    parser.add_argument("--steps", type=int, default=3, help="of each kind in a round [%(default)s]")
    parser.add_argument("--kinds", default="ddp,fsdp", help="ddp, fsdp [%(default)s]")
    parser.add_argument("--trace", metavar="FILE", help="write when the buckets of one step of tutti's were reduced")
    return parser.parse_args()


def slowest(answers: list[str]) -> Figures:
    """Of all ranks, figure by figure."""
    figures: list[Figures] = [json.loads(answer) for answer in answers]
    return {name: max(one[name] for one in figures) for name in figures[0]}


def show(ranks: int, seen: dict[str, list[Figures]]) -> None:
    """A line for each figure."""
    print(f"\n{ranks} ranks{'':20}" + "".join(f"{name + ', ms':>14}" for name in BACKENDS) + f"{'tutti / gloo':>14}")
    for figure in seen[BACKENDS[0]][0]:
        values = {name: [one[figure] for one in seen[name]] for name in BACKENDS}
        ratio = statistics.median(a / b for a, b in zip(values["tutti"], values["gloo"], strict=True))
        print(f"{figure:28}" + "".join(f"{1e3 * statistics.median(values[name]):14.1f}" for name in BACKENDS)
              + f"{ratio:14.3f}", flush=True)


def trace(team: Team, path: str) -> None:
    """Writes the events of one step of rank 0, and prints the share of the communication that ran beside backward."""
    events = json.loads(team.turn(json.dumps({"kind": "trace"}))[0])
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": [
            {"name": name, "ph": "X", "pid": 0, "tid": "backward" if name == "backward" else "all_reduce",
             "ts": 1e6 * begin, "dur": 1e6 * (end - begin)} for name, begin, end in events]}, file)
    ended = next(end for name, _, end in events if name == "backward")
    print(f"\n{'one step of rank 0, ms':28}{'begins':>10}{'ends':>10}{'of it beside backward':>24}")
    for name, begin, end in events:
        beside = "" if name == "backward" else f"{max(0.0, min(end, ended) - begin) / (end - begin):.0%}"
        print(f"{name:28}{1e3 * begin:10.1f}{1e3 * end:10.1f}{beside:>24}")


def main() -> None:
    """Measures and prints a table for each number of ranks."""
    options = parsed()
    shape = json.dumps({"layers": options.layers, "width": options.width, "batch": options.batch})
    for ranks in options.ranks:
        teams = {name: Team([sys.executable, WORKER, name, shape], ranks) for name in BACKENDS}
        seen: dict[str, list[Figures]] = {name: [] for name in BACKENDS}
        for turn in range(options.rounds + 1):
            for name in random.sample(BACKENDS, len(BACKENDS)):
                figures: Figures = {}
                for kind in options.kinds.split(","):
                    figures |= slowest(teams[name].turn(json.dumps({"kind": kind, "steps": options.steps})))
                if turn > 0:  # the first one warms up
                    seen[name].append(figures)
        show(ranks, seen)
        if options.trace:
            trace(teams["tutti"], options.trace)
        for team in teams.values():
            team.end()


if __name__ == "__main__":
    main()
