#!/usr/bin/env python3
"""all_reduce of the sizes of tensor-parallel inference through torch: ours, Gloo's, and DeepSpeed's shared-memory op.

    pip install .
    pip install ./bindings/torch --no-build-isolation      # and `pip install deepspeed ninja`, to measure it, too
    python apps/bench/torch/all_reduce.py --ranks 2,4

All ranks live through the whole measurement and sleep while it is not their turn. In each round each variant runs once,
in another order. Printed: medians over the rounds of the slowest rank's time for a call, in microseconds, and of the
ratio to ours (the operator) within a round.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "python"))
from team import Team

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")
OURS = "operator"
DTYPES = {"bfloat16": 2, "float32": 4}


def numbers(text: str) -> list[int]:
    """The numbers of a list with commas."""
    return [int(word) for word in text.split(",")]


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=numbers, default="2,4", help="how many, for example 2,4 [%(default)s]")
    parser.add_argument("--bytes", type=numbers, default="512,8192,65536,262144,1048576,16777216",
                        help="sizes of the tensor [%(default)s]")
    parser.add_argument("--dtypes", default="bfloat16,float32", help="[%(default)s]")
    parser.add_argument("--against", default="gloo,deepspeed", help="gloo, deepspeed, or none [%(default)s]")
    parser.add_argument("--rounds", type=int, default=9, help="[%(default)s]")
    parser.add_argument("--budget", type=float, default=0.03, help="seconds of a turn [%(default)s]")
    parser.add_argument("--json", help="a file for all figures")
    return parser.parse_args()


def peers(text: str) -> list[str]:
    """The peers to measure that are installed; it is told which are not."""
    import importlib.util
    found = [word for word in text.split(",") if word not in ("", "none")]
    if wrong := set(found) - {"gloo", "deepspeed"}:
        raise SystemExit(f"--against: there is no {', '.join(sorted(wrong))}; it is gloo, deepspeed or none")
    if "deepspeed" in found and importlib.util.find_spec("deepspeed") is None:
        print("deepspeed is not installed, so it is not measured: pip install deepspeed ninja")
        found.remove("deepspeed")
    return found


class Sides:
    """The processes of all libraries with one number of ranks."""

    def __init__(self, names: list[str], ranks: int) -> None:
        self._teams = [Team([sys.executable, WORKER, name], ranks) for name in names]
        self._of = {variant: team for team in self._teams for variant in json.loads(team.said[0])}
        self.variants = list(self._of)

    def seconds(self, variant: str, dtype: str, elements: int, calls: int) -> float:
        """For one call, of the slowest rank."""
        order = {"variant": variant, "dtype": dtype, "elements": elements, "calls": calls}
        return max(float(said) for said in self._of[variant].turn(json.dumps(order)))

    def end(self) -> None:
        """Ends them all."""
        for team in self._teams:
            team.end()


def measure(sides: Sides, dtype: str, elements: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of a call in each round. A library that is 20 times slower than the best has one round only."""
    calls = {}
    for variant in sides.variants:
        once = sides.seconds(variant, dtype, elements, 3)
        once = sides.seconds(variant, dtype, elements, max(3, min(50, int(options.budget / 4 / once))))
        calls[variant] = max(1, min(20000, int(options.budget / once)))
    seen: dict[str, list[float]] = {variant: [] for variant in sides.variants}
    slow: set[str] = set()
    for _ in range(options.rounds):
        for variant in random.sample(sides.variants, len(sides.variants)):
            if variant not in slow:
                seen[variant].append(sides.seconds(variant, dtype, elements, calls[variant]))
        best = min(times[-1] for times in seen.values())
        slow |= {variant for variant, times in seen.items() if times[-1] > 20 * best}
    return seen


def main() -> None:
    """Measures and prints a table for each number of ranks."""
    options = parsed()
    names = ["tutti", *peers(options.against)]
    figures: list[dict[str, Any]] = []
    for ranks in options.ranks:
        sides = Sides(names, ranks)
        print(f"{ranks} ranks, medians in us; in brackets: {OURS} / this one")
        print(f"{'dtype':9} {'bytes':>9}" + "".join(f"{variant:>22}" for variant in sides.variants))
        logarithms: dict[str, list[float]] = {variant: [] for variant in sides.variants if variant != OURS}
        for dtype in options.dtypes.split(","):
            for size in options.bytes:
                seen = measure(sides, dtype, max(1, size // DTYPES[dtype]), options)
                row = f"{dtype:9} {size:9}"
                for variant, times in seen.items():
                    text = f"{1e6 * statistics.median(times):.2f}"
                    if variant != OURS:
                        ratio = statistics.median(a / b for a, b in zip(seen[OURS], times, strict=False))
                        logarithms[variant].append(math.log(ratio))
                        text += f" ({ratio:.3f})"
                    row += f"{text:>22}"
                print(row, flush=True)
                figures.append({"ranks": ranks, "dtype": dtype, "bytes": size, "seconds": seen})
        print(f"{'geometric mean':19}{'':22}" + "".join(
            f"{math.exp(statistics.fmean(seen)):22.3f}" for seen in logarithms.values()))
        sides.end()
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file)


if __name__ == "__main__":
    main()
