"""Runs a piece of Python on several processes, bounded in time."""

import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time

LIMIT = 30.0  # seconds for a whole job

PRELUDE = """
import os, signal, sys, time
import numpy as np
import tutti

RANK = int(os.environ["RANK"])
FOLDER = os.environ["FOLDER"]

def say(text):
    print(text, flush=True)

def tell(name):  # the others see it whole or not at all
    open(os.path.join(FOLDER, name), "x").close()

def await_told(name):
    while not os.path.exists(os.path.join(FOLDER, name)):
        time.sleep(0.001)

"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Job:
    """`size` processes that run `body`; `world` is made unless init is False."""

    def __init__(self, body, size, folder, init=True):
        source = PRELUDE + ("world = tutti.init_process_group(timeout=20)\n" if init else "")
        source += textwrap.dedent(body)
        environment = dict(os.environ, WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(free_port()), FOLDER=str(folder),
                           OPENBLAS_NUM_THREADS="1")
        self.end = time.monotonic() + LIMIT
        self.processes = [
            subprocess.Popen([sys.executable, "-X", "dev", "-c", source],
                             env=dict(environment, RANK=str(rank)), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
            for rank in range(size)]
        self.heard = [b""] * size

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def await_said(self, rank, text):
        """Until that rank has said so."""
        stream = self.processes[rank].stdout
        while text.encode() not in self.heard[rank]:
            ready, _, _ = select.select([stream], [], [], max(0.0, self.end - time.monotonic()))
            piece = os.read(stream.fileno(), 4096) if ready else b""
            if not piece:
                self.processes[rank].kill()
                raise AssertionError(f"rank {rank} did not say {text!r}: {self.heard[rank]!r} "
                                     f"{self.processes[rank].communicate()[1].decode()}")
            self.heard[rank] += piece

    def await_asleep(self, rank):
        """Until its main thread sleeps in the kernel."""
        while time.monotonic() < self.end:
            with open(f"/proc/{self.processes[rank].pid}/stat", encoding="utf-8") as file:
                if file.read().rpartition(")")[2].split()[0] == "S":
                    return
            time.sleep(0.005)
        raise AssertionError(f"rank {rank} did not fall asleep")

    def interrupt(self, rank):
        """As Ctrl-C does. The time at which it was sent."""
        sent = time.monotonic()
        self.processes[rank].send_signal(signal.SIGINT)
        return sent

    def finish(self, expect=None):
        """What each rank said. All must end with 0, or as `expect` (rank: status) says."""
        said = []
        for rank, process in enumerate(self.processes):
            try:
                out, problem = process.communicate(timeout=max(0.1, self.end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} did not end in {LIMIT} s") from None
            status = (expect or {}).get(rank, 0)
            assert process.returncode == status, f"rank {rank}: {process.returncode}\n{problem.decode()}"
            assert b"nanobind" not in problem, problem.decode()  # it tells of leaks there
            said.append((self.heard[rank] + out).decode())
        return said


def run(body, size, folder, **options):
    with Job(body, size, folder, **options) as job:
        return job.finish()
