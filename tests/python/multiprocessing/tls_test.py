"""Jobs whose store and connections are encrypted, and the launcher's store by rendezvous()."""

import array
import os

import pytest

import stacks
import tutti.distributed as dist


def add():
    x = array.array("d", [dist.get_rank() + 1.0])
    dist.all_reduce(x)
    return x[0]


def meet():
    assert not dist.is_initialized()
    store, rank, size = next(dist.rendezvous("env://"))
    store.set(f"from {rank}", str(rank))
    return [store.get(f"from {peer}") for peer in range(size)]


def test_a_job_may_be_encrypted():
    assert dist.run(add, 2, env={"TUTTI_TLS": "1", "TUTTI_TRANSPORT": "tcp"}, start_method="fork") == [3.0, 3.0]


def test_the_environment_of_the_parent_counts_too(monkeypatch):
    monkeypatch.setenv("TUTTI_TLS", "1")
    assert dist.run(add, 2, start_method="fork") == [3.0, 3.0]


@pytest.mark.parametrize("tls", ["0", "1"])
def test_the_store_of_the_job_may_be_used(tls):
    assert dist.run(meet, 3, init=False, env={"TUTTI_TLS": tls}, start_method="fork") == [[b"0", b"1", b"2"]] * 3


def serve_and_meet():
    """A store of the program's own at MASTER_PORT, as torch.distributed has one, beside the job's."""
    port, rank, size = int(os.environ["MASTER_PORT"]), dist.get_rank(), dist.get_world_size()
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0)
    store.set(f"from {rank}", str(rank))
    return add(), [store.get(f"from {peer}") for peer in range(size)]


@pytest.mark.parametrize("tls", ["0", "1"])
def test_the_program_may_serve_at_master_port(tls):
    assert dist.run(serve_and_meet, 2, env={"TUTTI_TLS": tls}, start_method="fork") == [(3.0, [b"0", b"1"])] * 2


SCRIPT = """
import os, sys
import tutti.distributed as dist
assert os.environ["TUTTI_SECRET_FD"]
store, rank, size = next(dist.rendezvous("env://"))
store.set(f"from {rank}", str(rank))
assert [store.get(f"from {peer}") for peer in range(size)] == [b"0", b"1"]
dist.init_process_group("gloo")
dist.barrier()
print("met", flush=True)
"""


def test_the_store_of_tuttirun_may_be_used(script):
    said = stacks.said("-m", "tutti.distributed.run", "--nproc-per-node=2", script(SCRIPT))
    assert said.split() == ["met", "met"]
