"""Functions on several ranks, which are processes that are forked from this one: it has imported torch once."""

import dataclasses
import faulthandler
import functools
import inspect
import itertools
import os
import select
import signal
import sys
import time
import traceback
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import ranks
import stacks


@dataclasses.dataclass
class Ended:
    """What became of a process."""
    status: int  # what os._exit was given; less than 0 if a signal ended it
    text: str    # what it wrote, a traceback where it failed


def _child(function, rank, size, arguments, environment, output):
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    faulthandler.enable()
    status = 1
    try:
        os.environ.update(environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(size))
        torch.set_num_threads(1)
        torch.distributed.set_debug_level_from_env()
        function(*arguments)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def run_each(function, size, *arguments, limit=30, **environment):
    """Runs the function on `size` ranks; what became of each."""
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ranks.free_port()), **environment}
    started = []
    for rank in range(size):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            _child(function, rank, size, arguments, environment, writer)
        os.close(writer)
        started.append((pid, reader))
    texts = {reader: b"" for _, reader in started}
    opened = set(texts)

    def read(seconds):
        end = time.monotonic() + seconds
        while opened and time.monotonic() < end:
            for reader in select.select(opened, [], [], max(0.0, end - time.monotonic()))[0]:
                part = os.read(reader, 1 << 16)
                texts[reader] += part
                if not part:
                    opened.discard(reader)

    read(limit)
    late = {reader: pid for pid, reader in started if reader in opened}
    shown = stacks.end(*late.values())
    read(stacks.LAST_WORDS if late else 0)
    results = []
    for pid, reader in started:
        if reader in opened:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(reader)
        text = texts[reader].decode(errors="replace")
        results.append(Ended(status, text + (f"\n(not done in time)\n{shown}" if reader in late else "")))
        shown = "" if reader in late else shown
    return results


def run(function, size, *arguments, **options):
    """The same where all must end well."""
    ended = run_each(function, size, *arguments, **options)
    wrong = [f"rank {rank}: {one.status}\n{one.text}" for rank, one in enumerate(ended) if one.status != 0]
    assert not wrong, "\n".join(wrong)
    return [one.text for one in ended]


def begin(backend="tutti", seconds=60, **options):
    """Makes the world of a rank; its rank, and how many there are."""
    dist.init_process_group(backend, timeout=timedelta(seconds=seconds), **options)
    return dist.get_rank(), dist.get_world_size()


def on_ranks(*sizes, limit=30, given=None, make=begin, **environment):
    """Makes a test of a function, which must end well on each of so many ranks. Its arguments are those of the test, whose
    `body` it is; before them come `rank` and `size`, or one of these, if it wants that: then its world is made first.
    `given`: a fixture with more of their environment."""
    def made(function):
        wanted = [name for name, one in inspect.signature(function).parameters.items() if one.default is one.empty]
        place = [name for name in ("rank", "size") if name in wanted]
        names = ["size", *(name for name in wanted if name not in place), *([given] if given else [])]

        def body(*arguments):
            world = dict(zip(("rank", "size"), make())) if place else {}
            function(*map(world.get, place), *arguments)
            if dist.is_initialized():
                dist.destroy_process_group()  # a rank that ends without it counts as dead to those still in a call

        @functools.wraps(function)
        def test(size, **arguments):
            more = arguments.pop(given) if given else {}
            run(body, size, *arguments.values(), limit=limit, **{**more, **environment})

        test.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names])
        test.body = body
        return pytest.mark.parametrize("size", sizes)(test)
    return made


def check_killed(function, size, lost, *arguments, **environment):
    """Runs a function of which one rank kills itself; the others must end well."""
    ended = run_each(function, size, *arguments, **environment)
    wanted = [-signal.SIGKILL if rank == lost else 0 for rank in range(size)]
    assert [one.status for one in ended] == wanted, "\n".join(one.text for one in ended)


_meetings = itertools.count()


def all_come():
    """Where every rank waits for the others without the group, which may be broken."""
    store, name = dist.distributed_c10d._get_default_store(), f"meeting {next(_meetings)}"

    def wait_for_all(what):
        while store.add(what, 0) < dist.get_world_size():
            time.sleep(0.01)

    store.add(name, 1)
    wait_for_all(name)
    store.add(f"{name} is over", 1)
    if dist.get_rank() == 0:  # it serves the store
        wait_for_all(f"{name} is over")
