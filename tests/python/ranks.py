"""Runs Python on several processes, bounded in time: a text once (`run`, `Job`), or functions of a
module again and again (`Crew`)."""

import base64
import importlib.util
import itertools
import os
import pathlib
import pickle
import select
import signal
import socket
import subprocess
import sys
import textwrap
import time

LIMIT = 60.0  # seconds for a whole job
NO_TORCH = "torch is not installed (./dev deps torch)"
SOON = 0.5  # seconds from Ctrl-C to the exception, beyond what a process takes that only waits for it



def has_torch():
    """True if torch can be imported, which takes seconds. The repository has a folder of that name."""
    found = importlib.util.find_spec("torch")
    return found is not None and found.origin is not None


PRELUDE = """
import os, signal, sys, time
import numpy as np
import tutti

signal.signal(signal.SIGINT, signal.default_int_handler)  # a pytest that nohup started ignores it
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


# Not of those that the system hands out by itself (32768 and up), where another socket may get one
# before it is used: rank 0 listens there only when its Python has come up. Each worker of pytest-xdist has
# ports of its own, for the same reason.
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
_share = 18_000 // max(_worker + 1, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
_ports = itertools.cycle(range(10_000 + _worker * _share, 10_000 + (_worker + 1) * _share))
for _ in range(os.getpid() * 37 % _share):
    next(_ports)


def free_port():
    for port in itertools.islice(_ports, _share):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as who will listen there does
            try:
                probe.bind(("127.0.0.1", port))
                probe.listen()
            except OSError:
                continue
        return port
    raise AssertionError("no port is free")


class Reference:
    """A process beside that does nothing but wait for Ctrl-C: how long this machine takes to tell one of it."""

    SOURCE = """
import signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # one that comes before it waits is not lost
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
print(time.monotonic(), flush=True)
"""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-S", "-c", self.SOURCE], stdout=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL)
        assert self.process.stdout.readline() == b"ready\n"

    def interrupt(self):
        """Seconds until it had heard of it."""
        sent = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        out, _ = self.process.communicate(timeout=LIMIT)
        return float(out) - sent

    def end(self):
        self.process.kill()
        self.process.communicate()


class Job:
    """`size` processes that run `body`; `world` is made unless init is False."""

    def __init__(self, body, size, folder, init=True, stdin=subprocess.DEVNULL):
        source = PRELUDE + ("world = tutti.init_process_group(timeout=20)\n" if init else "")
        source += textwrap.dedent(body)
        environment = dict(os.environ, WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(free_port()), FOLDER=str(folder),
                           OPENBLAS_NUM_THREADS="1")
        self.end = time.monotonic() + LIMIT
        self.processes = [
            subprocess.Popen([sys.executable, "-X", "dev", "-c", source],
                             env=dict(environment, RANK=str(rank)), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=stdin)
            for rank in range(size)]
        self.heard = [b""] * size
        self.reference = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
        if self.reference is not None:
            self.reference.end()

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
        """As Ctrl-C does. The time by which it must have become an exception."""
        self.reference = self.reference or Reference()
        sent = time.monotonic()
        self.processes[rank].send_signal(signal.SIGINT)
        return sent + SOON + self.reference.interrupt()

    def finish(self, expect=None, leaks=False):
        """What each rank said. All must end with 0, or as `expect` (rank: status) says. `leaks`: they
        may leave objects behind, since they end in the middle of things."""
        said = []
        for rank, process in enumerate(self.processes):
            try:
                out, problem = process.communicate(timeout=max(0.1, self.end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"rank {rank} did not end in {LIMIT} s") from None
            status = (expect or {}).get(rank, 0)
            assert process.returncode == status, f"rank {rank}: {process.returncode}\n{problem.decode()}"
            # It tells of leaks there.
            assert leaks or b"nanobind" not in problem, f"rank {rank}: {problem.decode()}"
            said.append((self.heard[rank] + out).decode())
        return said


def state(pid):
    """A letter of the kernel's, as ps shows it; X if the process is no more. One that has ended stays, as Z,
    until its exit status is fetched: that of an orphan by process 1, which may take its time."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def run(body, size, folder, leaks=False, **options):
    with Job(body, size, folder, **options) as job:
        return job.finish(leaks=leaks)


CREW = """
import base64, importlib, pickle, traceback
sys.path[:0] = [os.path.dirname(CASES)]
cases = importlib.import_module(os.path.basename(CASES))
say("ready")
for line in sys.stdin:
    name, arguments = pickle.loads(base64.b64decode(line))
    try:
        getattr(cases, name)(world, *arguments)
        problem = ""
    except Exception:
        problem = traceback.format_exc()
    say("answer " + base64.b64encode(problem.encode()).decode())
world.close()
"""


class Crew:
    """`size` processes in one world that run functions of the module `cases` (a path without .py),
    as often as wanted. Each gets its world first. After a failure the next call starts new ones."""

    def __init__(self, size, cases):
        self.size = size
        self.cases = cases
        self.job = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        """Ends the processes."""
        if self.job is not None:
            self.job.__exit__()
        self.job = None

    def start(self):
        """Before the first call, and after a failure."""
        self.end()
        self.job = Job(f"CASES = {str(self.cases)!r}\n{CREW}", self.size, "", stdin=subprocess.PIPE)
        for rank in range(self.size):
            self.job.await_said(rank, "ready\n")
            self.job.heard[rank] = b""

    def run(self, name, *arguments):
        """`cases.name(world, *arguments)` on every rank; AssertionError with what each raised."""
        if self.job is None:
            self.start()
        self.job.end = time.monotonic() + LIMIT
        order = base64.b64encode(pickle.dumps((name, arguments))) + b"\n"
        for process in self.job.processes:
            process.stdin.write(order)
            process.stdin.flush()
        problems = []
        try:
            for rank in range(self.size):
                self.job.await_said(rank, "\n")
                answer = self.job.heard[rank].decode().removeprefix("answer ")
                self.job.heard[rank] = b""
                if problem := base64.b64decode(answer).decode():
                    problems.append(f"rank {rank} of {self.size}: {problem}")
        except AssertionError:
            self.end()
            raise
        if problems:
            self.end()
            raise AssertionError("\n".join(problems))
