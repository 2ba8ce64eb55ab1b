"""Ranks on two hosts: network namespaces with a link between them."""

import sys

import pytest

import stacks
import two_hosts

LIMIT = 60.0  # seconds for the whole of it

PRELUDE = """
import datetime, os, socket
import numpy as np
import tutti.distributed as dist
RANK = int(os.environ["RANK"])
limit = datetime.timedelta(seconds=20)
dist.init_process_group("gloo", timeout=limit)
"""


def run_on_two_hosts(body: str) -> None:
    """`body` on ranks 0 and 2 of one host, and 1 and 3 of the other."""
    command = two_hosts.command(4, sys.executable, "-c", PRELUDE + body)
    if command is None:
        pytest.skip(two_hosts.REASON)
    stacks.output(command, LIMIT, env=two_hosts.environment(OPENBLAS_NUM_THREADS="1"))


def test_groups_that_only_their_members_make():
    run_on_two_hosts("""
across = [0, 1] if RANK < 2 else [2, 3]
inside = [0, 2] if RANK % 2 == 0 else [1, 3]
for ranks in (across, inside):
    group = dist.new_group(ranks, limit, use_local_synchronization=True)
    x = np.full(50_000, RANK + 1.0)
    dist.all_reduce(x, group=group)
    assert (x == sum(ranks) + 2).all(), x
dist.barrier()
""")
