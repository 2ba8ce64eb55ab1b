"""Starts a text of Python on several processes of one JAX job, without a launcher, bounded in time."""

import os
import pathlib
import socket
import subprocess
import sys
import textwrap
import time

LIMIT = 120.0  # seconds for a whole job

PRELUDE = """
import os, sys, time
import tutti.jax
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
RANK, SIZE = int(os.environ["JOB_RANK"]), int(os.environ["JOB_SIZE"])

def say(text):
    print(text, flush=True)

def begin(port=os.environ["JOB_PORT"]):
    jax.distributed.initialize(f"127.0.0.1:{port}", SIZE, RANK)

def mesh_of(devices=None):
    return Mesh(np.array(jax.devices() if devices is None else devices), "x")

def everywhere(mesh, function):  # jitted: from each process's rows to its rows
    return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))

def rows(mesh, own):
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P("x")), own)

def mine(array):
    return np.asarray(array.addressable_shards[0].data)

def psum(mesh, own):
    return mine(everywhere(mesh, lambda v: jax.lax.psum(v, "x"))(rows(mesh, own)))

def failure(function, *arguments):  # the exception's type and text
    try:
        function(*arguments)
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"
    raise AssertionError("did not fail")

def end(gone=()):  # at once: JAX would wait for a process that is gone
    sys.stdout.flush()
    folder = os.environ["JOB_FOLDER"]
    open(f"{folder}/done_{RANK}", "x").close()
    # JAX's coordinator is in process 0, and ends the others with itself.
    until = time.monotonic() + 30
    while RANK == 0 and time.monotonic() < until and not all(
            os.path.exists(f"{folder}/done_{rank}") for rank in range(SIZE) if rank not in gone):
        time.sleep(0.01)
    os._exit(0)
"""


def free_port():
    """A port that the job's coordinator can take."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


class Job:
    """`size` processes that run `body` behind the prelude; `begins` calls jax.distributed.initialize before it, and
    `package` imports tutti.jax. `each` has variables of single ranks."""

    def __init__(self, body, size, folder, begins=True, package=True, environment=None, each=None):
        program = pathlib.Path(folder) / "program.py"
        prelude = PRELUDE if package else PRELUDE.replace("import tutti.jax\n", "")
        program.write_text(prelude + ("begin()\n" if begins else "") + textwrap.dedent(body))
        shared = {**os.environ, "JOB_SIZE": str(size), "JOB_PORT": str(free_port()), "JOB_FOLDER": str(folder),
                  "PYTHONUNBUFFERED": "1", **(environment or {})}
        self.processes = []
        self.files = [(pathlib.Path(folder) / f"{rank}.out", pathlib.Path(folder) / f"{rank}.err") for rank in range(size)]
        for rank, (out, problem) in enumerate(self.files):
            with out.open("wb") as to, problem.open("wb") as errors:
                self.processes.append(subprocess.Popen(
                    [sys.executable, str(program)], env={**shared, "JOB_RANK": str(rank), **(each or {}).get(rank, {})},
                    stdin=subprocess.DEVNULL, stdout=to, stderr=errors))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()  # JAX handles SIGTERM itself
            process.wait()

    def said(self, rank):
        """Its output, and its errors."""
        return [file.read_text(errors="replace") for file in self.files[rank]]

    def finish(self, expect=None, limit=LIMIT):
        """The output of each rank. All must end with 0, or as `expect` (rank: status) tells."""
        until = time.monotonic() + limit
        for rank, process in enumerate(self.processes):
            try:
                status = process.wait(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} did not end\n" + self.all_said()) from None
            assert status == (expect or {}).get(rank, 0), f"rank {rank}: {status}\n" + self.all_said()
        return [self.said(rank)[0] for rank in range(len(self.processes))]

    def all_said(self):
        """For the text of a failure."""
        return "\n".join(f"=== rank {rank}\n" + "\n".join(self.said(rank)) for rank in range(len(self.processes)))


def run(body, size, folder, expect=None, **options):
    """The output of each rank."""
    with Job(body, size, folder, **options) as job:
        return job.finish(expect)
