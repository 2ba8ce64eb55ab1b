"""Ranks on two hosts: network namespaces that the test makes, with a link between them."""

import os
import subprocess
import sys

import pytest

import stacks

LIMIT = 60.0  # seconds for the whole of it

# Runs in a namespace of its own, and makes the other. All of it vanishes with the last process in it.
HOSTS = """
import os, subprocess, sys, time

def ip(*words, enter=()):
    subprocess.run([*enter, "ip", *words], check=True, timeout=20)

keeper = subprocess.Popen(["unshare", "-n", "sleep", "120"])
workers = []
try:
    end = time.monotonic() + 20
    while os.readlink(f"/proc/{keeper.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
        assert time.monotonic() < end and keeper.poll() is None, "no second namespace"
        time.sleep(0.005)
    enter = ("nsenter", "-n", "-t", str(keeper.pid), "--")
    ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(keeper.pid))
    for number, inside in enumerate(((), enter), 1):
        ip("link", "set", "lo", "up", enter=inside)
        ip("addr", "add", f"10.78.0.{number}/24", "dev", "eth0", enter=inside)
        ip("link", "set", "eth0", "up", enter=inside)
        ip("route", "add", "default", "dev", "eth0", enter=inside)
    for rank in range(4):
        place = dict(RANK=str(rank), WORLD_SIZE="4", MASTER_ADDR="10.78.0.1", MASTER_PORT="29523")
        workers.append(subprocess.Popen([*(enter if rank % 2 else ()), sys.executable, "-c", sys.argv[1]],
                                        env=dict(os.environ, **place)))
    codes = [worker.wait() for worker in workers]
    assert codes == [0] * 4, codes
finally:
    for process in (*workers, keeper):
        process.kill()
        process.wait()
"""

PRELUDE = """
import datetime, os, socket
import numpy as np
import tutti.distributed as dist
RANK = int(os.environ["RANK"])
limit = datetime.timedelta(seconds=20)
dist.init_process_group("gloo", timeout=limit)
"""


def _namespace() -> list[str]:
    for words in (["unshare", "-n"], ["unshare", "-Urn"]):
        if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL, timeout=20, check=False).returncode == 0:
            return words
    pytest.skip("neither `unshare -n` nor `unshare -Urn` works here")


def run_on_two_hosts(body: str) -> None:
    """`body` on ranks 0 and 2 of one host, and 1 and 3 of the other."""
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1", PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
    stacks.output([*_namespace(), sys.executable, "-c", HOSTS, PRELUDE + body], LIMIT, env=environment)


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
