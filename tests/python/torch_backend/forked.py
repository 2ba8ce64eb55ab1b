"""Functions on several ranks, which are processes that are forked from this one: it has imported torch once."""

import dataclasses
import os
import select
import signal
import sys
import time
import traceback

import torch

import ranks


@dataclasses.dataclass
class Ended:
    """What became of a process."""
    status: int  # what os._exit was given; -9 if it was killed
    text: str    # what it wrote, a traceback where it failed


def _child(function, rank, size, arguments, environment, output):
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
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
    end = time.monotonic() + limit
    while opened and time.monotonic() < end:
        for reader in select.select(opened, [], [], max(0.0, end - time.monotonic()))[0]:
            part = os.read(reader, 1 << 16)
            texts[reader] += part
            if not part:
                opened.discard(reader)
    results = []
    for pid, reader in started:
        late = reader in opened
        if late:
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(reader)
        text = texts[reader].decode(errors="replace")
        results.append(Ended(status, text + ("\n(not done in time)" if late else "")))
    return results


def run(function, size, *arguments, **options):
    """The same where all must end well."""
    ended = run_each(function, size, *arguments, **options)
    wrong = [f"rank {rank}: {one.status}\n{one.text}" for rank, one in enumerate(ended) if one.status != 0]
    assert not wrong, "\n".join(wrong)
    return [one.text for one in ended]
