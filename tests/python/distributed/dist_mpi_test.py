"""The backend on MPI, by a real mpirun of this machine."""

import os
import sys

import pytest

import stacks
import tutti.distributed as dist

PROGRAM = """
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
"""


def run_by_mpirun(mpirun, program, ranks, folder):
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return stacks.run([mpirun, "--oversubscribe", "-n", ranks, sys.executable, program, folder], 100, env=environment)


def test_three_ranks(open_mpi, script, tmp_path):
    ended = run_by_mpirun(open_mpi, script(PROGRAM), 3, tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert sorted(one.name for one in tmp_path.glob("done *")) == ["done 0", "done 1", "done 2"]


IN_USE = """
    import gc
    import os
    import sys
    import time
    import weakref
    import numpy as np
    import tutti

    world = tutti.init_process_group(backend="mpi", timeout=30)
    world.barrier()
    if world.rank == 0:
        array = np.empty(1 << 28, dtype=np.uint8)  # more than MPI sends before there is a recv
        memory = weakref.ref(array)
        if "WAY" == "dropped":
            world.isend(array, 1, timeout=0.2)
        else:
            try:
                if "WAY" == "blocking":
                    world.send(array, 1, timeout=0.2)
                else:
                    work = world.isend(array, 1, timeout=0.2)
                    work.wait()
                raise SystemExit("no error")
            except TimeoutError as problem:
                assert "keep them until the process ends" in str(problem)
            work = None
        del array
        while world.health() is None:
            time.sleep(0.001)
        gc.collect()
        try:
            world.barrier()  # a call with the GIL drops what has ended
        except TimeoutError:
            pass
        assert memory() is not None
        small = np.empty(8)
        memory = weakref.ref(small)
        try:
            world.all_reduce(small)
        except TimeoutError:
            pass
        del small
        gc.collect()
        assert memory() is None  # MPI never got it
    else:
        while world.health() is None:
            time.sleep(0.001)
    open(os.path.join(sys.argv[1], f"done {world.rank}"), "x").close()
    os._exit(0)  # MPI_Finalize would wait for the message
"""


@pytest.mark.parametrize("way", ["blocking", "waited", "dropped"])
def test_arrays_that_mpi_still_uses_stay(open_mpi, script, way, tmp_path):
    ended = run_by_mpirun(open_mpi, script(IN_USE.replace("WAY", way)), 2, tmp_path)
    assert sorted(one.name for one in tmp_path.glob("done *")) == ["done 0", "done 1"], ended.stdout + ended.stderr

REGISTERED = """
    import os
    import sys
    import numpy as np
    import tutti
    import tutti.distributed as dist

    def make(store, rank, size, name, timeout, options):
        return tutti.init_process_group(backend="mpi", timeout=timeout)

    tutti.register_backend("lent", make)
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    dist.init_process_group("lent", init_method=f"file://{sys.argv[1]}/store", rank=rank, world_size=3)
    group = dist.new_group([2, 0])
    handles = [dist.mpi_communicator()] + ([dist.mpi_communicator(group)] if rank != 1 else [])
    assert len(set(handles)) == len(handles) and all(isinstance(one, int) for one in handles), handles
    x = np.full(5, rank + 1.0)
    dist.all_reduce(x)
    assert (x == 6).all()
    dist.destroy_process_group()
    open(os.path.join(sys.argv[1], f"done {rank}"), "x").close()
"""


def test_a_registered_backend_has_what_the_group_behind_it_has(open_mpi, script, tmp_path):
    finished = run_by_mpirun(open_mpi, script(REGISTERED), "3", str(tmp_path))
    assert finished.returncode == 0 and len(list(tmp_path.glob("done *"))) == 3, finished.stdout + finished.stderr



def test_options_without_the_name_of_the_backend():
    """They are those of the backend that TUTTI_BACKEND names."""
    if not dist.is_mpi_available():
        pytest.skip("there is no mpirun of Open MPI here")
    program = 'import tutti\ntutti.init_process_group(backend_options="a communicator")'
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    ended = stacks.run([sys.executable, "-c", program], 100, env=dict(environment, TUTTI_BACKEND="mpi"))
    assert "TypeError: init_process_group: backend_options of" in ended.stderr, ended.stderr
