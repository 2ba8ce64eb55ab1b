"""Trees a second of LightGBM on tutti and on its own sockets.

    python bench.py                                     2 and 4 ranks on this host, below three minutes
    python bench.py --hosts                             2 ranks over TCP, in two network namespaces that it makes
    tuttirun --nnodes 2 ... --nproc-per-node 1 bench.py     as a job of these ranks, on several hosts for one

Both train in the same processes by turns; the order changes each round. Printed: medians of the rounds, and the median of
the ratios of each round.
"""

import argparse
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import time

ROUNDS = 5
SHAPES = [(20_000, 30), (2_000, 300)]  # rows of each rank, columns
TREES = 20


def address():
    """Of this rank, as the others see it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((os.environ["MASTER_ADDR"], 9))
        return probe.getsockname()[0]


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def everybodys(value):
    """Of all ranks."""
    import tutti.distributed as dist
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def measure(features, labels, params):
    """Trees a second, without the start of the network and the bins; the slowest rank counts."""
    import lightgbm
    model = lightgbm.Booster(params, lightgbm.Dataset(features, labels))
    for _ in range(3):
        model.update()
    everybodys(None)
    start = time.perf_counter()
    for _ in range(TREES):
        model.update()
    slowest = max(everybodys(time.perf_counter() - start))
    if "machines" in params:
        model.free_network()
    return TREES / slowest


def run_rank():
    import numpy as np

    import tutti.distributed as dist
    import tutti.lightgbm
    dist.init_process_group()
    size = dist.get_world_size()
    random = np.random.default_rng(dist.get_rank())
    for rows, columns in SHAPES:
        features = random.normal(size=(rows, columns))
        labels = features[:, 0] * features[:, 1] + features[:, 2] + random.normal(size=rows)
        params = {"objective": "regression", "num_leaves": 31, "num_threads": 1, "verbosity": -1}
        seen = {"tutti": [], "sockets": []}
        for turn in range(ROUNDS):
            for transport in sorted(seen, reverse=bool(turn % 2)):
                if transport == "tutti":
                    with tutti.lightgbm.network() as given:
                        seen[transport].append(measure(features, labels, {**params, **given}))
                else:
                    port = free_port()
                    machines = everybodys(f"{address()}:{port}")
                    own = {"machines": ",".join(machines), "local_listen_port": port, "num_machines": size,
                           "tree_learner": "data", "time_out": 1}
                    seen[transport].append(measure(features, labels, {**params, **own}))
        if dist.get_rank() == 0:
            ratio = statistics.median(a / b for a, b in zip(seen["tutti"], seen["sockets"], strict=True))
            print(f"{size:5} {rows:10,} x {columns:<4} {statistics.median(seen['tutti']):10.1f} "
                  f"{statistics.median(seen['sockets']):10.1f} {ratio:8.2f}", flush=True)


def on_two_hosts():
    """The command of two ranks, one in each network namespace, which each have half of the CPUs."""
    os.environ.setdefault("TUTTI_CPUS", str(max(1, len(os.sched_getaffinity(0)) // 2)))
    sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "tests" / "python")]
    import two_hosts
    command = two_hosts.command(2, sys.executable, __file__)
    if command is None:
        sys.exit(f"bench.py: {two_hosts.REASON}")
    return command


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", action="store_true", help="2 ranks over TCP, in two network namespaces")
    hosts = parser.parse_args().hosts
    model = next((line.partition(":")[2].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    print(f"{model}, {os.cpu_count()} CPUs; trees a second, 31 leaves, 1 thread a rank")
    print("ranks   rows x columns      tutti    sockets    ratio", flush=True)
    run = [sys.executable, "-m", "tutti", "run", "--nproc-per-node"]
    for command in [on_two_hosts()] if hosts else [[*run, "2", __file__], [*run, "4", __file__]]:
        subprocess.run(command, check=True, timeout=170)


if "RANK" in os.environ:
    run_rank()
else:
    main()
