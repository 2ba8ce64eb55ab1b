"""`run_threads`: ranks as threads of this process."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from tutti.multiprocessing.spawn import checked_args, checked_count

T = TypeVar("T")

_START_TIMEOUT = 60.0  # seconds for all threads to start; operations have the world's own timeout


def run_threads(fn: Callable[..., T], nthreads: int, args: tuple[Any, ...] = (), config: Any = None) -> list[T]:
    """Calls fn(world, *args) in `nthreads` threads, each with its own world of that size, over real shared
    memory; returns what they return, in the order of ranks. For tests, debuggers and a first try.
    `config`: a tutti.Config; without it that of the environment holds (TUTTI_TIMEOUT and the other variables).

    `world` is a tutti.ProcessGroup; `tutti.distributed` knows one world per process and is not for this.
    Raises the first exception (by time); the other ranks then end with errors of their own, because the group
    of a rank that raises is broken.
    """
    nthreads, args = checked_count(nthreads, "nthreads"), checked_args(args)
    _check_backend(config)
    rendezvous = _ThreadRendezvous(nthreads)
    results: list[Any] = [None] * nthreads
    errors: list[BaseException] = []

    def rank_main(rank: int) -> None:
        from tutti import _tutti  # noqa: PLC0415: `import tutti.multiprocessing` alone stays quick

        try:
            with _tutti.init_process_group(rank=rank, world_size=nthreads, config=config,
                                           exchange=rendezvous.of(rank)) as world:
                results[rank] = fn(world, *args)
        except BaseException as error:  # noqa: BLE001: told by the caller's thread
            errors.append(error)
            rendezvous.fail()

    threads = [threading.Thread(target=rank_main, args=(rank,), name=f"rank {rank}", daemon=True)
               for rank in range(nthreads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def _check_backend(config: Any) -> None:
    from tutti import _tutti  # noqa: PLC0415: as above

    name = (_tutti.Config.from_environment() if config is None else config).backend
    if name == "mpi":
        raise ValueError('run_threads: the ranks of the backend "mpi" are processes that mpirun starts (tuttirun --backend '
                         'mpi, or tutti.distributed.run), not threads; choose the backend "native" here (TUTTI_BACKEND)')


class _ThreadRendezvous:
    """Where the threads find each other: each exchange is one table."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._tables: dict[str, dict[int, bytes]] = {}
        self._failed = False

    def of(self, rank: int) -> Callable[[str, bytes], list[bytes]]:
        def exchange(name: str, mine: bytes) -> list[bytes]:
            with self._changed:
                table = self._tables.setdefault(name, {})
                table[rank] = bytes(mine)
                self._changed.notify_all()
                until = time.monotonic() + _START_TIMEOUT
                while len(table) < self._size:
                    if self._failed or not self._changed.wait(until - time.monotonic()):
                        raise RuntimeError("run_threads: another rank could not start")
                return [table[other] for other in range(self._size)]

        return exchange

    def fail(self) -> None:
        with self._changed:
            self._failed = True
            self._changed.notify_all()
