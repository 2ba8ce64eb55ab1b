"""`run` on a backend whose ranks only a launcher of its own can start: mpirun."""

import multiprocessing.spawn
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from tutti.multiprocessing import child, rank_stacks, shipping
from tutti.multiprocessing.errors import ProcessExitedException, raised

Command = tuple[list[str], list[str]]

# Of a job that this process itself may belong to: the launcher tells the ranks who they are.
_OF_ANOTHER_JOB = (*child.OF_ANOTHER_JOB, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
                   "TUTTI_AGENT_STORE")
# By these, ranks know their number before MPI is begun: of Open MPI; of MPICH and Intel MPI.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
# Between asking the launcher to end its ranks and ending it.
_BEFORE_KILL = 30.0


def command_of(backend: str | None, size: int, env: Mapping[str, str] | None) -> Command | None:
    """The command that starts so many ranks on the backend that `run` was asked for; None: `run` itself starts them."""
    from tutti import _tutti  # noqa: PLC0415: `import tutti.multiprocessing` alone stays quick

    name = backend or {**os.environ, **(env or {})}.get("TUTTI_BACKEND", "")
    if _tutti.engine_name(name).removeprefix("cpu:") != "mpi":
        return None
    command = _tutti.launch_command("mpi", size)
    if command is None:
        return None
    if any(variable in os.environ for variable in RANK_VARIABLES):
        raise RuntimeError(f"run: this process is a rank of {command[0][0]} itself, which cannot start others from it; call "
                           "run in a process that was started without it, or with backend=\"native\"")
    return command


class Launched:
    """The ranks of one call of `run`, as the processes of a launcher."""

    def __init__(self, command: Command, size: int, env: Mapping[str, str] | None) -> None:
        self._command, self._size, self._env = command, size, dict(env or {})

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], init: bool,
            seconds: float | None) -> list[Any]:
        """The results of all ranks; raises the errors of `run`."""
        with tempfile.TemporaryDirectory(prefix="tutti-run-") as folder:
            # Not multiprocessing's key: it is for processes that are children of this one.
            with shipping.main_left_out():
                prepared = multiprocessing.spawn.get_preparation_data("rank")
            prepared.pop("authkey", None)
            call = shipping.Shipped((fn, args, kwargs), True, shipping.has_name(fn))
            child.write(os.path.join(folder, "call"), (prepared, call, init, os.getpid()))
            argv, added = self._command
            environment = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_JOB}
            environment.update(self._env)
            environment.update((name, value) for name, _, value in (one.partition("=") for one in added))
            # The ranks find this very package, wherever the program has it from.
            environment["PYTHONPATH"] = os.pathsep.join(
                [str(pathlib.Path(__file__).parents[2]), *filter(None, [environment.get("PYTHONPATH")])])
            started = subprocess.Popen([*argv, sys.executable, "-m", "tutti.multiprocessing.launched_rank", folder],
                                       env=environment, stdin=subprocess.DEVNULL)
            try:
                code = started.wait(seconds)
            except subprocess.TimeoutExpired:
                raise rank_stacks.too_late(seconds, {rank: (os.path.join(folder, f"stack.{rank}"), self._pid(folder, rank))
                                                     for rank in self._without(folder, "result")}) from None
            finally:
                self._end(started)
            return self._results(folder, code)

    def _end(self, started: "subprocess.Popen[bytes]") -> None:
        if started.poll() is not None:
            return
        started.terminate()
        try:
            started.wait(_BEFORE_KILL)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()

    def _pid(self, folder: str, rank: int) -> int:
        """The number of that rank's process; that of none if it has not begun."""
        file = pathlib.Path(folder, f"pid.{rank}")
        return pickle.loads(file.read_bytes()) if file.exists() else 1 << 30

    def _without(self, folder: str, kind: str) -> list[int]:
        return [rank for rank in range(self._size) if not os.path.exists(os.path.join(folder, f"{kind}.{rank}"))]

    def _results(self, folder: str, code: int) -> list[Any]:
        failures = [(rank, child.read_failure(os.path.join(folder, f"error.{rank}"))) for rank in range(self._size)]
        told = [(failure.is_consequence, failure.when, rank, failure) for rank, failure in failures if failure]
        if told:
            _, _, rank, failure = min(told, key=lambda one: one[:3])
            raise raised(rank, failure.trace, failure.pid)
        missing = self._without(folder, "result")
        ranks = ", ".join(map(str, missing)) or "none"
        if missing and code == 0:
            raise RuntimeError(f"run: rank(s) {ranks} ended without a result: left by sys.exit(0) or os._exit(0)")
        if code != 0:
            raise ProcessExitedException(f"{self._command[0][0]} ended with code {code}; without a result: rank(s) {ranks}. "
                                         "Its own output says more", missing[0] if missing else 0, -1, code)
        return [self._result(folder, rank) for rank in range(self._size)]

    def _result(self, folder: str, rank: int) -> Any:
        with open(os.path.join(folder, f"result.{rank}"), "rb") as file:
            return shipping.loads(pickle.load(file))
