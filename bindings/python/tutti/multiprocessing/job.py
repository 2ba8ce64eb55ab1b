"""Processes of this host that are the ranks of one world: the part that `run` and the pytest plug-in share."""

import multiprocessing
import os
import pathlib
import pickle
import secrets
import socket
import tempfile
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from tutti.multiprocessing import child, shipping
from tutti.multiprocessing.handed_secret import HandedSecret
from tutti.multiprocessing.spawn import ProcessContext, start_processes

_ADDRESS = "127.0.0.1"


class Ticket:
    """Given to each process, which learns its rank from it and hands in its result by it."""

    def __init__(self, folder: str, size: int, env: Mapping[str, str], ports: Any, secret: str) -> None:
        self._folder = pathlib.Path(folder)
        self._env = dict(env)
        self._ports = ports
        self.size = size
        self.name = secrets.token_hex(8)
        self._secret = secret

    def enter(self, rank: int) -> None:
        """Sets the variables of this rank that init_process_group reads."""
        store_port, master_port = self._ports.get()
        for name in child.OF_ANOTHER_JOB:
            os.environ.pop(name, None)
        os.environ.update(self._env)
        os.environ.update({
            "RANK": str(rank), "WORLD_SIZE": str(self.size), "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(self.size), "MASTER_ADDR": _ADDRESS,
            "MASTER_PORT": str(master_port), "TUTTI_STORE_PORT": str(store_port), "TUTTI_AGENT_STORE": "1",
            "TUTTI_JOB": self.name,
            "TUTTI_SECRET_FD": self._secret,
        })

    def environment(self) -> dict[str, str]:
        """The variables that all processes have alike."""
        return {**os.environ, **self._env}

    def put_result(self, rank: int, value: Any) -> None:
        """Leave the result of that rank's function for the parent."""
        child.write(self.file("result", rank), shipping.dumps_by_value(value))

    def file(self, kind: str, rank: int) -> str:
        """A file of that rank, in a folder that goes with the job."""
        return str(self._folder / f"{kind}.{rank}")


class Job:
    """The parent's side: starts the processes, serves their store, and ends the rest at the end."""

    def __init__(self, size: int, start_method: str, env: Mapping[str, str] | None = None) -> None:
        self._start_method = start_method
        self._folder = tempfile.TemporaryDirectory(prefix="tutti-run-")
        ports = multiprocessing.get_context(start_method).SimpleQueue()
        self._ports = ports
        self._store: Any = None
        self._reserved: socket.socket | None = None
        self.context: ProcessContext | None = None
        self._secret = HandedSecret()
        self.ticket = Ticket(self._folder.name, size, env or {}, ports, self._secret.variable)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.context is not None:
            self.context.end()
        self._ports.close()
        self._store = None
        if self._reserved is not None:
            self._reserved.close()
        self._secret.close()
        self._folder.cleanup()

    def start(self, main: Callable[..., None], *args: Any) -> ProcessContext:
        """Calls main(rank, ticket, *args) in each process; it begins with `ticket.enter(rank)`."""
        from tutti import _tutti  # noqa: PLC0415: `import tutti.multiprocessing` alone stays quick

        self.context = start_processes(main, (self.ticket, *args), self.ticket.size, join=False,
                                       start_method=self._start_method)
        assert self.context is not None
        # Only now: a fork must not find half of the store's thread.
        tls = _tutti.Config.from_environment(self.ticket.environment()).tls
        self._store = _tutti.TCPStore(_ADDRESS, 0, None, True, None, False, job=self.ticket.name,
                                      secret=self._secret.bytes, encrypt=tls)
        # Bound and not listening: nobody gets the port by chance, and what a rank serves there can listen.
        self._reserved = socket.socket()
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("", 0))
        for _ in range(self.ticket.size):
            self._ports.put((self._store.port, self._reserved.getsockname()[1]))
        return self.context

    def result(self, rank: int) -> Any:
        """The result that the rank handed in; FileNotFoundError if there is none."""
        with open(self.ticket.file("result", rank), "rb") as file:
            shipped = pickle.load(file)
        try:
            return shipping.loads(shipped)
        except FileNotFoundError as problem:  # of the value's own making: there is a result
            raise RuntimeError(f"the result of rank {rank} cannot be read: {problem}") from problem
