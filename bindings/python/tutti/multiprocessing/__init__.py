"""Processes: everything of Python's `multiprocessing`, and `spawn` as torch.multiprocessing has it.

    import tutti.multiprocessing as mp

    def work(rank, size):
        ...

    if __name__ == "__main__":
        mp.spawn(work, args=(4,), nprocs=4)   # work(0, 4), work(1, 4), ...; the first failure ends all

`run` goes a step further: the processes are the ranks of a world, and their results come back.
Functions of a notebook's cell can be given to both. `run_threads` makes ranks of threads.
"""

import importlib
import multiprocessing
from multiprocessing import *  # noqa: F403: the whole of it is ours too
from typing import Any

from tutti.multiprocessing.run import run
from tutti.multiprocessing.spawn import (ProcessContext, ProcessException, ProcessExitedException,
                                         ProcessRaisedException, SpawnContext, spawn,
                                         start_processes)
from tutti.multiprocessing.threads import run_threads

__all__ = [  # noqa: PLE0604
    *multiprocessing.__all__, "ProcessContext", "ProcessException", "ProcessExitedException",
    "ProcessRaisedException", "SpawnContext", "run", "run_threads", "spawn",
    "start_processes",
]


def __getattr__(name: str) -> Any:
    """Names of `multiprocessing` beside its public ones, such as its module `shared_memory`."""
    if not name.startswith("__"):
        if hasattr(multiprocessing, name):
            return getattr(multiprocessing, name)
        try:
            return importlib.import_module(f"multiprocessing.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
