"""Times psum through jit on tutti and on gloo, JAX's own transport, on 2 processes of this machine.

Both jobs run at the same time, and one of them waits while the other one is timed, by turns. Medians of all calls of
process 0; a ratio below 1 means that tutti is faster.
"""

import json
import os
import platform
import socket
import statistics
import subprocess
import sys

SIZES = ((8, 400), (64 << 10, 200), (4 << 20, 30))  # bytes, calls a round
ROUNDS = 8
PROCESSES = 2
MARK = "bench: "  # gloo prints lines of its own


def worker(transport, rank, port):
    """Times what it is told to on standard input."""
    if transport == "tutti":
        import tutti.jax  # noqa: F401, PLC0415: only in this job
    import time

    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding
    from jax.sharding import PartitionSpec as P

    jax.distributed.initialize(f"127.0.0.1:{port}", PROCESSES, int(rank))
    mesh = Mesh(np.array(jax.devices()), "x")
    psum = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "x"), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))
    data = {size: jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), np.ones(size // 4, np.float32))
            for size, _ in SIZES}
    for one in data.values():
        assert np.asarray(psum(one).addressable_shards[0].data)[0] == PROCESSES
    print(MARK + json.dumps(jax.__version__), flush=True)
    for line in sys.stdin:
        size, calls = map(int, line.split())
        times = []
        for _ in range(calls):
            begin = time.perf_counter()
            psum(data[size]).block_until_ready()
            times.append(time.perf_counter() - begin)
        print(MARK + json.dumps(times), flush=True)
    os._exit(0)


class Job:
    """The processes on one transport."""

    def __init__(self, transport):
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        self.processes = [subprocess.Popen([sys.executable, __file__, transport, str(rank), str(port)], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, text=True) for rank in range(PROCESSES)]
        self.version = self.answer()

    def answer(self):
        """The output of process 0, when all have answered."""
        lines = [next((line for line in process.stdout if line.startswith(MARK)), None) for process in self.processes]
        if None in lines:
            raise SystemExit("a process of the benchmark has failed")
        return json.loads(lines[0].removeprefix(MARK))

    def time(self, size, calls):
        """The seconds of each call on process 0."""
        for process in self.processes:
            process.stdin.write(f"{size} {calls}\n")
            process.stdin.flush()
        return self.answer()

    def end(self):
        """Ends the processes; the one with JAX's coordinator last."""
        for process in reversed(self.processes):
            process.stdin.close()
            process.wait(timeout=30)


def main():
    """Prints the table."""
    jobs = {transport: Job(transport) for transport in ("gloo", "tutti")}
    times = {(transport, size): [] for transport in jobs for size, _ in SIZES}
    for number in range(ROUNDS):
        for size, calls in SIZES:
            for transport in sorted(jobs, reverse=number % 2 == 1):
                taken = jobs[transport].time(size, calls)
                if number > 0:  # the first round warms up
                    times[transport, size] += taken
    for job in jobs.values():
        job.end()
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    print(f"psum through jit, {PROCESSES} processes, JAX {jobs['tutti'].version}, {len(os.sched_getaffinity(0))} CPUs, {model}")
    print(f"{'bytes':>9} {'gloo us':>10} {'tutti us':>10} {'ratio':>6}")
    for size, _ in SIZES:
        gloo, tutti = (statistics.median(times[transport, size]) * 1e6 for transport in ("gloo", "tutti"))
        print(f"{size:9} {gloo:10.1f} {tutti:10.1f} {tutti / gloo:6.2f}")


if __name__ == "__main__":
    worker(*sys.argv[1:]) if len(sys.argv) > 1 else main()
