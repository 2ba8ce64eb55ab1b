"""allreduce of Ray's collectives on tutti and on Ray's own gloo, between two actors of this host.

    python integrations/ray/bench.py [--actors 2]

The same actors hold a group of each. In each round each backend has a turn, in an order that changes. A time is that of
the slowest actor for one call; the table has medians over the rounds, and the median of the ratios within a round.
"""

import argparse
import os
import platform
import statistics
import time

import numpy as np
import ray
import tutti
import tutti.ray
from ray.util import collective

SIZES = [8 << (3 * power) for power in range(8)]  # bytes: 8 to 16 MiB
BACKENDS = ("GLOO", "TUTTI")
ROUNDS = 15
TURN = 0.03  # seconds of a turn, about


@ray.remote(num_cpus=0)
class Member:
    """One rank of both groups."""

    def __init__(self, rank: int, size: int) -> None:
        tutti.ray.register()
        for backend in BACKENDS:
            collective.init_collective_group(size, rank, backend, backend)

    def turn(self, backend: str, octets: int, calls: int) -> float:
        """Seconds for one call."""
        array = np.zeros(octets // 4, np.float32)
        for _ in range(2):
            collective.allreduce(array, backend)
        began = time.perf_counter()
        for _ in range(calls):
            collective.allreduce(array, backend)
        return (time.perf_counter() - began) / calls


def machine() -> str:
    """The machine and what runs on it, in a line."""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    return (f"{model}, {len(os.sched_getaffinity(0))} CPUs; Ray {ray.__version__}, NumPy {np.__version__}, "
            f"tutti {tutti.__version__}, Python {platform.python_version()}")


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--actors", type=int, default=2, help="[%(default)s]")
    size = parser.parse_args().actors
    ray.init(num_cpus=size, include_dashboard=False)
    members = [Member.remote(rank, size) for rank in range(size)]

    def turn(backend: str, octets: int, calls: int) -> float:
        return max(ray.get([member.turn.remote(backend, octets, calls) for member in members]))

    print(machine())
    print(f"allreduce of float32 in NumPy arrays, {size} actors, {ROUNDS} rounds, us for a call\n")
    print("| bytes | Ray's gloo | tutti | ratio |\n|---|---|---|---|")
    for octets in SIZES:
        calls = {each: max(3, min(2000, int(TURN / turn(each, octets, 3)))) for each in BACKENDS}
        times: dict[str, list[float]] = {each: [] for each in BACKENDS}
        for number in range(ROUNDS):
            for each in BACKENDS[::1 if number % 2 else -1]:
                times[each].append(turn(each, octets, calls[each]))
        gloo, ours = (statistics.median(times[each]) * 1e6 for each in BACKENDS)
        ratio = statistics.median(ours / gloo for gloo, ours in zip(times["GLOO"], times["TUTTI"]))
        print(f"| {octets} | {gloo:.1f} | {ours:.1f} | {ratio:.3f} |", flush=True)


main()
