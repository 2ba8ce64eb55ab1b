"""What goes wrong is told by name: which group and operation, which rank, what to try. Three accidents,
each in a group of its own, because an accident breaks its group for all members:

1. the ranks call different things,
2. a rank does not come,
3. a rank's process dies.

    tuttirun --nproc-per-node 3 06_failing_rank.py
"""

import os
import sys
from collections.abc import Callable

import numpy as np

import tutti
import tutti.distributed as dist


def expect(kind: type[Exception], action: Callable[[], object], culprit: int | None = None) -> None:
    """The action must fail like that, and blame that rank."""
    try:
        action()
    except tutti.Error as error:
        print(f"[rank {dist.get_rank()}] {error}\n", flush=True)
        assert isinstance(error, kind), repr(error)
        assert culprit is None or error.culprit == culprit, repr(error)
        return
    raise AssertionError("no error: that is wrong")


dist.init_process_group()
rank, last = dist.get_rank(), dist.get_world_size() - 1
if last == 0:
    sys.exit("06_failing_rank needs at least two ranks, so that one can fail")

different_calls = dist.new_group()
values = np.ones(3 if rank == last else 2)
expect(tutti.DisagreementError, lambda: dist.all_reduce(values, group=different_calls))

who_is_late = dist.new_group()
if rank != last:
    expect(tutti.TimeoutError, lambda: dist.barrier(who_is_late, timeout=0.3), last)
dist.barrier()  # the world is whole: only the two groups are broken

# Dies like a crash: nothing is said, nobody is told. (The status 0 keeps tuttirun from ending the others at
# once, as it would after a real crash.) When it comes out of this barrier, the others have entered it.
if rank == last:
    dist.barrier()
    sys.stdout.flush()
    os._exit(0)


def go_on() -> None:
    dist.barrier()  # perhaps already here
    dist.barrier()


expect(tutti.NetworkError, go_on, last)
