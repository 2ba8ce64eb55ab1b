"""What becomes of a rank whose interpreter ends while operations of its run."""

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import ranks
import stacks
import tutti.torch  # noqa: F401

LIMIT = 150  # seconds for all cases
COUNT = 20  # operations


def many():
    return [dist.all_reduce(torch.ones(100_000), async_op=True) for _ in range(COUNT)]


def value(future):
    return future.value()[0].sum().item()


def chained(rank):
    kept = [work.get_future().then(value) for work in many()]  # noqa: F841
    sys.exit(3)


def never_received(rank):
    return dist.irecv(torch.ones(1), 1 - rank).get_future().then(value)


def hook(rank):
    dist.group.WORLD._register_on_completion_hook(lambda info: torch.ones(100).sum())
    return many()


CASES = {chained: "3", never_received: "0", hook: "0"}  # with the exit status


def main():
    """Runs all cases, each on two ranks that are forked from this process and end as a program does."""
    for case in CASES:
        started = []
        port = str(ranks.free_port())
        for rank in range(2):
            pid = os.fork()
            if pid == 0:
                os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
                dist.init_process_group("tutti", timeout=timedelta(seconds=5))
                return case(rank)
            started.append(pid)
        print(case.__name__, *(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in started), flush=True)
    return None


def test_running_operations_do_not_spoil_the_exit():
    """Before Python 3.14 a thread that then comes for the GIL is ended, and once took the process with it (SIGABRT)."""
    done = stacks.python(__file__, limit=LIMIT, env={**os.environ, "OMP_NUM_THREADS": "1",
                                                     "PYTHONPATH": os.pathsep.join(sys.path)})
    wanted = {case.__name__: [status, status] for case, status in CASES.items()}
    found = {name: statuses for name, *statuses in map(str.split, done.stdout.splitlines())}
    assert found == wanted, (found, done.stderr[-3000:])


if __name__ == "__main__":
    kept = main()  # what a program holds when it ends
