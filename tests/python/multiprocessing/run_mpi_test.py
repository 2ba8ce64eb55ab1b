"""dist.run on the backend "mpi": mpirun starts the ranks."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import stacks
import tutti
import tutti.distributed as dist
import tutti.multiprocessing as mp
from process_cases import end_on, fail_on, leave, sleep_on
from spawn_test import await_gone, program
from tutti.multiprocessing import child

pytestmark = pytest.mark.usefixtures("open_mpi")


def add(factor):
    x = np.full(2, factor * (dist.get_rank() + 1.0))
    dist.all_reduce(x)
    return dist.get_rank(), x.tolist(), dist.get_backend(), dist.get_node_local_rank()


def own_world():
    assert not dist.is_initialized() and os.environ["MY_VARIABLE"] == "x"
    with pytest.raises(RuntimeError, match="this process is a rank of .*mpirun.* itself"):
        dist.run(add, 2, args=(1,), backend="mpi")
    dist.init_process_group()
    return dist.get_world_size(), dist.get_backend()


def test_results_come_in_the_order_of_ranks():
    assert dist.run(add, 3, kwargs={"factor": 2}, backend="cpu:mpi") == [
        (rank, [12, 12], "mpi", rank) for rank in range(3)]
    assert not dist.is_initialized()  # ours is another process


def test_the_environment_chooses_it_too(monkeypatch):
    # Variables of a job that this process may itself belong to are not handed on.
    monkeypatch.setenv("WORLD_SIZE", "7")
    monkeypatch.setenv("TUTTI_BACKEND", "mpi")
    assert dist.run(own_world, 2, init=False, env={"MY_VARIABLE": "x"}) == [(2, "mpi")] * 2


def test_a_failure_is_told_with_its_traceback():
    with pytest.raises(mp.ProcessRaisedException, match="(?s)Process 1 .*in fail_on.*ValueError: no coffee") as caught:
        dist.run(fail_on, 2, args=(1,), backend="mpi")
    assert caught.value.error_index == 1 and caught.value.error_pid > 0


def test_a_killed_rank_ends_the_job(capfd):
    with pytest.raises(mp.ProcessExitedException, match=r"mpirun.* ended with code \d+; without a result: rank\(s\) 0, 1"):
        dist.run(end_on, 2, args=(1, "SIGKILL"), backend="mpi")
    assert "signal 9" in capfd.readouterr().err  # Open MPI says which


def test_a_rank_that_leaves_early_has_no_result():
    with pytest.raises(RuntimeError, match=r"rank\(s\) 1 ended without a result"):
        dist.run(leave, 2, backend="mpi")


@pytest.mark.full  # it waits for 15 s
def test_timeout_names_the_rank_that_still_ran():
    begin = time.monotonic()
    with pytest.raises(TimeoutError, match=r"(?s)after 15 s rank\(s\) 1 still ran.*rank 1 stood here.*in sleep_on"):
        dist.run(sleep_on, 2, args=(1,), backend="mpi", timeout=15)  # rank 0 may start slowly
    assert time.monotonic() - begin < 60


def test_other_start_methods_are_refused():
    with pytest.raises(ValueError, match="mpirun.* starts the ranks of this backend; start_method 'fork' cannot"):
        dist.run(add, 2, args=(1,), backend="mpi", start_method="fork")


def test_the_end_of_the_caller_ends_the_ranks(tmp_path):
    with program(tmp_path, 'mp.run(process_cases.stay_as_rank, 2, args=(folder,), backend="mpi")'):
        pass
    await_gone(tmp_path)


def test_a_rank_whose_caller_has_ended_ends(tmp_path):
    caller = subprocess.Popen(["true"])
    caller.wait()
    child.write(str(tmp_path / "call"), ({}, b"", False, caller.pid))
    done = stacks.run([sys.executable, "-m", "tutti.multiprocessing.launched_rank", tmp_path], 60)
    assert done.returncode == 1
    assert "the process that started this rank has ended" in done.stderr


def test_threads_are_no_ranks_of_mpi(monkeypatch):
    text = 'run_threads: the ranks of the backend "mpi" are processes that mpirun starts'
    with pytest.raises(ValueError, match=text):
        mp.run_threads(add, 2, config=tutti.Config.from_environment({"TUTTI_BACKEND": "mpi"}))
    monkeypatch.setenv("TUTTI_BACKEND", "mpi")
    with pytest.raises(ValueError, match=text):
        mp.run_threads(add, 2)
