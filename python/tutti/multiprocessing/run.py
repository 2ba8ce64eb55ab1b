"""`run`: a function on the ranks of a new world, and their results."""

import multiprocessing
import os
import pathlib
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from tutti.multiprocessing import child, shipping
from tutti.multiprocessing.shipping import Shipped
from tutti.multiprocessing.spawn import ProcessContext, start_processes

_ADDRESS = "127.0.0.1"
# Of a job that this process itself may belong to.
_OF_ANOTHER_JOB = ("TUTTI_JOB", "TUTTI_SECRET_FD", "TUTTI_SECRET_FILE", "TUTTI_STORE_PORT")


def run(fn: Callable[..., Any], nprocs: int | None = None, args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None, *, init: bool = True, backend: str | None = None,
        timeout: float | timedelta | None = None, start_method: str | None = None,
        env: Mapping[str, str] | None = None, grace_period: float = 5.0) -> list[Any]:
    """Calls fn(*args, **kwargs) in `nprocs` new processes that are the ranks of a world, and returns
    what they return, in the order of ranks. Works in notebooks too, with functions of their cells.

    The world is there when `fn` is called (`tutti.distributed.get_rank()`, ...) and destroyed after
    it; with `init=False` only the environment is set, and `fn` calls init_process_group itself. The
    processes meet at a store of their own, on a port of their own, and know a secret: jobs do not
    meet each other, and any number may follow each other.

    nprocs: one per CPU that this process may use, if not told.
    timeout: seconds for all of it; what still runs then is ended, and TimeoutError names the ranks.
    env: variables for the processes, beside those that say who they are.
    start_method: "spawn", "fork" or "forkserver"; if not told, "spawn", or "fork" where only that can
        give `fn` to another process (a notebook's function, and cloudpickle is not installed).
    grace_period: seconds that the other ranks have to end by themselves after the first failure.

    Raises what `spawn` raises for the first rank that fails; the other ranks are ended before.
    """
    size = len(os.sched_getaffinity(0)) if nprocs is None else nprocs
    method = start_method or _start_method(fn)
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    deadline = None if seconds is None else time.monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="tutti-run-") as folder:
        job = _Job(folder, size, dict(env or {}), init, backend)
        ports = multiprocessing.get_context(method).SimpleQueue()
        context = start_processes(_rank_main, (fn, args, dict(kwargs or {}), job, ports), size,
                                  join=False, start_method=method)
        assert context is not None
        try:
            # Only now: a fork must not find half of the store's thread.
            store = job.serve()
            for _ in range(size):
                ports.put(store.port)
            while not context.join(_left(deadline), grace_period):
                if deadline is not None and time.monotonic() >= deadline:
                    raise TimeoutError(_too_late(seconds, context))
        except BaseException:
            context.end()
            raise
        finally:
            ports.close()
        return [job.result(rank, context) for rank in range(size)]


class _Job:
    """What the processes of one `run` have in common. Sent to each."""

    def __init__(self, folder: str, size: int, env: dict[str, str], init: bool,
                 backend: str | None) -> None:
        self._folder = pathlib.Path(folder)
        self._size = size
        self._env = env
        self.init = init
        self.backend = backend
        self._name = secrets.token_hex(8)
        secret = self._folder / "secret"
        secret.touch(mode=0o600)
        secret.write_bytes(secrets.token_bytes(32))

    def serve(self) -> Any:
        """The store at which they meet."""
        from tutti import _tutti  # noqa: PLC0415: `import tutti.multiprocessing` alone stays quick

        return _tutti.TCPStore(_ADDRESS, 0, None, True, None, False, job=self._name,
                               secret=(self._folder / "secret").read_bytes())

    def enter(self, rank: int, port: int) -> None:
        """Tells this process who it is."""
        for name in _OF_ANOTHER_JOB:
            os.environ.pop(name, None)
        os.environ.update(self._env)
        os.environ.update({
            "RANK": str(rank), "WORLD_SIZE": str(self._size), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(self._size), "MASTER_ADDR": _ADDRESS, "MASTER_PORT": str(port),
            "TUTTI_AGENT_STORE": "1", "TUTTI_JOB": self._name,
            "TUTTI_SECRET_FILE": str(self._folder / "secret"),
        })

    def put_result(self, rank: int, value: Any) -> None:
        child.write(self._result_file(rank), Shipped(value))

    def result(self, rank: int, context: ProcessContext) -> Any:
        try:
            with open(self._result_file(rank), "rb") as file:
                return shipping.loads(file.read()).open()
        except FileNotFoundError:
            raise RuntimeError(f"run: the process of rank {rank} (number {context.pids()[rank]}) ended without a "
                               f"result: it was interrupted, or left by sys.exit(0)") from None

    def _result_file(self, rank: int) -> str:
        return str(self._folder / f"result.{rank}")


def _rank_main(rank: int, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               job: _Job, ports: Any) -> None:
    job.enter(rank, ports.get())
    if not job.init:
        job.put_result(rank, fn(*args, **kwargs))
        return
    from tutti import distributed as dist  # noqa: PLC0415: only who makes a world needs it

    dist.init_process_group(job.backend)
    job.put_result(rank, fn(*args, **kwargs))
    if dist.is_initialized():
        dist.destroy_process_group()


def _start_method(fn: Callable[..., Any]) -> str:
    return "spawn" if shipping.has_cloudpickle() or shipping.has_name(fn) else "fork"


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _too_late(seconds: float | None, context: ProcessContext) -> str:
    late = ", ".join(str(rank) for rank in context.running())
    return (f"run: after {seconds:g} s rank(s) {late} still ran and were ended; "
            f"if they are only slow, give a longer timeout")
