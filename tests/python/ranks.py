"""Runs Python on several processes, bounded in time: a text once (`run`, `Job`), or functions of a
module again and again (`Crew`)."""

import atexit
import base64
import ctypes
import importlib.metadata
import importlib.util
import itertools
import os
import pathlib
import pickle
import select
import selectors
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest

import stacks

LIMIT = 60.0  # seconds for a whole job
LONG = os.environ.get("TUTTI_LONG_TESTS", "0") not in ("", "0")
NO_TORCH = "torch is not installed (./dev deps torch)"
SOON = 0.5  # seconds from Ctrl-C to the exception, beyond what a process takes that only waits for it


def rotation():
    """A number that ./dev sets: it chooses what need not run each time. None if all must run. The rule of
    tests/support/rotation.hpp."""
    turn = os.environ.get("TUTTI_ROTATION") or "0"
    return None if LONG or turn == "all" else int(turn)


def sizes(*fixed, others=(4, 5, 8, 1)):
    """Numbers of ranks for a test: `fixed` (2 and 3 if not told), and one of `others`, which rotates."""
    turn = rotation()
    return sorted({*(fixed or (2, 3)), *(others if turn is None else [others[turn % len(others)]])})


def one_by_rotation(cases, parts=None, slower=1):
    """One of these cases, or one of so many parts of them; it changes with each `slower`th turn. All if nothing rotates."""
    turn, cases = rotation(), list(cases)
    parts = parts or len(cases)
    return cases if turn is None else cases[turn // slower % parts::parts]


def has_torch():
    """True if torch can be imported, which takes seconds. The repository has a folder of that name."""
    found = importlib.util.find_spec("torch")
    return found is not None and found.origin is not None


def plugin_is_installed():
    """True if pytest finds the plug-in of tutti by itself, as that of an installed wheel."""
    return bool(importlib.metadata.entry_points(group="pytest11", name="tutti"))


# The command of a pytest that has the plug-in.
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
          *([] if plugin_is_installed() else ["-p", "tutti.pytest_plugin"])]

PRELUDE = """
import gc, os, signal, sys, threading, time, weakref
import numpy as np
import tutti
from raising import StoreOfPython, in_fork, raises

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

def interrupted(blocking):  # says when KeyboardInterrupt came out of it
    say("blocking")
    try:
        blocking()
    except KeyboardInterrupt:
        say(f"interrupted at {time.monotonic()}")
    else:
        raise AssertionError("was not interrupted")

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


def secret_in(folder, octets=b"s" * 32):
    """A file with the secret of a job."""
    path = folder / "job.secret"
    path.touch(mode=0o600)
    path.write_bytes(octets)
    return path


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


class Rank:
    """A process that runs a text of Python; like subprocess.Popen. A server forks it that has imported what it needs."""

    _server = _link = None

    def __init__(self, source, environment, stdin):
        if Rank._link is None:
            Rank._link, theirs = socket.socketpair()
            Rank._server = subprocess.Popen(
                [sys.executable, "-X", "dev", str(pathlib.Path(__file__).with_name("fork_server.py")), str(theirs.fileno())],
                env=dict(os.environ, OPENBLAS_NUM_THREADS="1"), pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            theirs.close()
            atexit.register(Rank._link.close)
        self.returncode = None
        out, self_out = os.pipe()
        error, self_error = os.pipe()
        into, self.stdin = os.open(os.devnull, os.O_RDONLY), None
        if stdin == subprocess.PIPE:
            os.close(into)
            into, writer = os.pipe()
            self.stdin = os.fdopen(writer, "wb")
        self.stdout, self.stderr = os.fdopen(out, "rb", 0), os.fdopen(error, "rb", 0)
        order = pickle.dumps((source, environment))
        self._adopt_orphans(True)
        socket.send_fds(Rank._link, [len(order).to_bytes(8, "little")], [into, self_out, self_error])
        Rank._link.sendall(order)
        self.pid = int.from_bytes(Rank._link.recv(8), "little")
        self._adopt_orphans(False)
        assert self.pid, "the server of forks has ended"
        for mine in (into, self_out, self_error):
            os.close(mine)

    @staticmethod
    def _adopt_orphans(on):
        """Only while a rank is forked: orphans of other tests are not this process's."""
        set_child_subreaper = 36
        assert ctypes.CDLL(None).prctl(set_child_subreaper, on, 0, 0, 0) == 0

    def poll(self):
        if self.returncode is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if ended else None
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout=None):
        """What it writes until it ends."""
        texts, until = {self.stdout: b"", self.stderr: b""}, time.monotonic() + (LIMIT if timeout is None else timeout)
        if self.stdin is not None:
            self.stdin.close()
        with selectors.DefaultSelector() as opened:
            for stream in texts:
                if not stream.closed:
                    opened.register(stream, selectors.EVENT_READ)
            while opened.get_map():
                ready = opened.select(max(0.0, until - time.monotonic()))
                if not ready:
                    raise subprocess.TimeoutExpired("rank", timeout)
                for key, _ in ready:
                    part = key.fileobj.read(1 << 16)
                    texts[key.fileobj] += part
                    if not part:
                        opened.unregister(key.fileobj)
                        key.fileobj.close()
        while self.poll() is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("rank", timeout)
            time.sleep(0.001)
        return texts[self.stdout], texts[self.stderr]


class Job:
    """`size` processes that run `body`; `world` is made unless init is False."""

    def __init__(self, body, size, folder, init=True, stdin=subprocess.DEVNULL, limit=LIMIT):
        source = PRELUDE + ("world = tutti.init_process_group(timeout=20)\n" if init else "")
        source += textwrap.dedent(body)
        environment = dict(os.environ, WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT=str(free_port()), FOLDER=str(folder))
        self.end = time.monotonic() + limit
        self.processes = [Rank(source, dict(environment, RANK=str(rank)), stdin) for rank in range(size)]
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

    def late(self, what):
        """The error when a limit is over: what every rank said, and where those stood that had not ended."""
        shown = stacks.end(*(process.pid for process in self.processes if process.poll() is None))
        said = [b"".join((heard, *process.communicate())).decode(errors="replace")
                for heard, process in zip(self.heard, self.processes)]
        return AssertionError("\n".join([what, shown, *(f"=== rank {rank} said\n{text}" for rank, text in enumerate(said))]))

    def await_said(self, rank, text):
        """Until that rank has said so."""
        stream = self.processes[rank].stdout
        while text.encode() not in self.heard[rank]:
            ready, _, _ = select.select([stream], [], [], max(0.0, self.end - time.monotonic()))
            piece = os.read(stream.fileno(), 4096) if ready else b""
            if not piece:
                raise self.late(f"rank {rank} did not say {text!r}")
            self.heard[rank] += piece

    def await_asleep(self, rank):
        """Until its main thread sleeps in the kernel."""
        while time.monotonic() < self.end:
            if stacks.state(self.processes[rank].pid) == "S":
                return
            time.sleep(0.005)
        raise self.late(f"rank {rank} did not fall asleep")

    def interrupt(self, rank):
        """As Ctrl-C does. The time by which it must have become an exception."""
        self.reference = self.reference or Reference()
        sent = time.monotonic()
        self.processes[rank].send_signal(signal.SIGINT)
        return sent + SOON + self.reference.interrupt()

    def interrupt_asleep(self, rank, said="blocking"):
        """The same, when it has said so and sleeps."""
        self.await_said(rank, said)
        self.await_asleep(rank)
        return self.interrupt(rank)

    def finish(self, expect=None, leaks=False):
        """What each rank said. All must end with 0, or as `expect` (rank: status) says. `leaks`: they
        may leave objects behind, since they end in the middle of things."""
        said = []
        for rank, process in enumerate(self.processes):
            try:
                out, problem = process.communicate(timeout=max(0.1, self.end - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise self.late(f"rank {rank} did not end in time") from None
            status = (expect or {}).get(rank, 0)
            assert process.returncode == status, f"rank {rank}: {process.returncode}\n{problem.decode()}"
            # It tells of leaks there.
            assert leaks or b"nanobind" not in problem, f"rank {rank}: {problem.decode()}"
            said.append((self.heard[rank] + out).decode())
        return said


def interrupted_at(said):
    """When that was, by what a rank has said."""
    return float(said.split("interrupted at ")[1].split()[0])


def run(body, size, folder, leaks=False, **options):
    with Job(body, size, folder, **options) as job:
        return job.finish(leaks=leaks)


CREW = """
import base64, importlib, pickle, traceback
sys.path[:0] = [os.path.dirname(CASES)]
cases = importlib.import_module(os.path.basename(CASES))
adopt = getattr(cases, "adopt", lambda world: (world,))
say("ready")
for line in sys.stdin:
    name, arguments = pickle.loads(base64.b64decode(line))
    try:
        getattr(cases, name)(*adopt(world), *arguments)
        problem = ""
    except Exception:
        problem = traceback.format_exc()
    say("answer " + base64.b64encode(problem.encode()).decode())
world.close()
"""


class Crew:
    """`size` processes in one world that run functions of the module `cases` (a path without .py), as often as wanted.
    Each gets its world first, or what the function `adopt` of that module makes of it. After a failure the next call
    starts new ones."""

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
        """`cases.name(world, *arguments)` on every rank, as above; AssertionError with what each raised."""
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


def crew_of(cases, of=None):
    """A fixture: processes that run functions of `cases`, as many as `of` says, by default as sizes() does."""
    @pytest.fixture(scope="module", params=sizes() if of is None else of)
    def crew(request):
        with Crew(request.param, cases) as made:
            yield made
    return crew
