"""The backend on MPI, by a real mpirun of this machine."""

import os
import shutil
import subprocess
import sys
import textwrap

import pytest

import tutti.distributed as dist

PROGRAM = textwrap.dedent("""
    import datetime
    import os
    import sys
    import numpy as np
    import tutti.distributed as dist

    dist.init_process_group("mpi", timeout=datetime.timedelta(seconds=30))
    rank, size = dist.get_rank(), dist.get_world_size()
    assert size == 3 and dist.get_backend() == "mpi" and isinstance(dist.mpi_communicator(), int)
    x = np.full(5, rank + 1.0)
    dist.all_reduce(x)
    assert (x == 6).all()
    half = np.full(3, rank, dtype=np.float16)
    dist.all_reduce(half, op=dist.ReduceOp.MAX, async_op=True).wait()
    assert (half == 2).all()
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert [one["rank"] for one in objects] == [0, 1, 2]
    group = dist.new_group([0, 2])
    if rank != 1:
        dist.all_reduce(x, group=group)
        assert (x == 12).all()
    alone = dist.new_group([0, 1], use_local_synchronization=True)
    if rank < 2:
        y = np.ones(2)
        dist.all_reduce(y, group=alone)
        assert (y == 2).all()
    try:
        dist.new_group([0, 1], backend="gloo")
        raise SystemExit("a group on another backend was made")
    except RuntimeError as problem:
        assert "both must be on the same" in str(problem)
    child = os.fork()
    if child == 0:
        raise SystemExit(7)  # its exit handlers must leave the MPI of the parent alone
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=20))
    dist.destroy_process_group()
    open(os.path.join(sys.argv[1], f"done {rank}"), "x").close()  # mpirun joins lines of ranks
""")


def test_three_ranks(tmp_path):
    mpirun = shutil.which("mpirun.openmpi")
    if mpirun is None or not dist.is_mpi_available():
        pytest.skip("there is no mpirun of Open MPI here")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TUTTI_MPI_LIBRARY="libmpi.so.40")
    ended = subprocess.run([mpirun, "--oversubscribe", "-n", "3", sys.executable, str(program), str(tmp_path)],
                           env=environment,
                           capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert sorted(one.name for one in tmp_path.glob("done *")) == ["done 0", "done 1", "done 2"]


def test_options_without_the_name_of_the_backend():
    """They are those of the backend that TUTTI_BACKEND names."""
    if not dist.is_mpi_available():
        pytest.skip("there is no mpirun of Open MPI here")
    program = 'import tutti\ntutti.init_process_group(backend_options="a communicator")'
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    ended = subprocess.run([sys.executable, "-c", program], env=dict(environment, TUTTI_BACKEND="mpi"),
                           capture_output=True, text=True, timeout=100, check=False)
    assert "TypeError: init_process_group: backend_options of" in ended.stderr, ended.stderr
