"""The backend on MPI: ranks that mpirun starts. A run of mpirun calls many functions, because torch takes long to load."""

import os
import pathlib
import shutil
import socket
import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import operations_test
import stacks
import tutti.torch
from forked import all_come, begin, on_ranks
from ranks import one_by_rotation

HERE = pathlib.Path(__file__).parent
LIMIT = 100
# What mpirun, or a test that is a rank itself, says of ranks.
OF_A_RANK = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TUTTI_BACKEND")
EXAMPLES = [("01_point_to_point", 3), ("02_collectives", 3), ("03_linear_model", 2), ("04_average_gradients", 2),
            ("05_gathered_metrics", 3), ("06_contrastive_loss", 2), ("07_autograd_layers", 3), ("08_models", 2)]
# Each with two ranks, then with three or more.
OF_TWO = ["layers_test.test_objects_checkpoints_and_sub_groups(folder)",
          *(f"layers_test.test_{name}" for name in ("ddp_options", "join", "zero_optimizer", "fsdp2", "loaders", "functional")),
          *(f"works_test.test_{name}" for name in ("futures", "dropped_works", "polled_works", "hook_is_told")),
          *(f"errors_test.test_{name}" for name in ("bad_calls", "disagreement")),
          "mpi_test.body_reductions", "mpi_test.body_moves", "errors_test.test_abort_is_told_to_all"]
OF_MORE = [*(f"operations_test.test_{name}" for name in ("uneven", "coalesced", "premul_sum", "views", "sparse")),
           "errors_test.test_a_monitored_barrier_names_who_has_not_come", "mpi_test.body_split", "mpi_test.body_late",
           "mpi_test.body_missing"]
pytestmark = pytest.mark.skipif(shutil.which("mpirun.openmpi") is None or not tutti.is_available("mpi"),
                               reason="there is no mpirun of Open MPI here")


def started(size, arguments, module=None, **environment):
    """What became of a program that mpirun has started."""
    command = ["mpirun.openmpi", "--oversubscribe", "-n", str(size), sys.executable, *(["-m", module] if module else []), *arguments]
    inherited = {name: value for name, value in os.environ.items() if name not in OF_A_RANK}
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return stacks.run(command, LIMIT, env={**inherited, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                           "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TUTTI_MPI_LIBRARY": "libmpi.so.40",
                                           "OMP_NUM_THREADS": "1", "PYTHONPATH": path, **environment})


def call(size, folder, functions, **environment):
    """Calls the functions on so many ranks; all must end well everywhere."""
    ended = started(size, [str(HERE / "mpi_worker.py"), str(folder), *functions], **environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = sorted(one.name for one in folder.glob("* on *"))
    assert told == sorted(f"{name} on {rank}" for name in functions for rank in range(size)), ended.stderr


def test_encryption_is_refused():
    for url, backend in (("mpi://", ""), ("env://", "mpi")):
        program = f"import torch.distributed as dist, tutti.torch; dist.init_process_group('tutti', {url!r})"
        ended = started(1, ["-c", program], TUTTI_TLS="1", **({"TUTTI_BACKEND": backend} if backend else {}))
        assert ended.returncode != 0 and "'mpi' (TUTTI_BACKEND) does not encrypt, but TUTTI_TLS is 1" in ended.stderr


def body_by_url():
    begin("cpu:tutti", init_method="mpi://")
    assert dist.get_rank() == int(os.environ["OMPI_COMM_WORLD_RANK"])
    assert dist.get_world_size() == int(os.environ["OMPI_COMM_WORLD_SIZE"])
    late()


def body_late():
    begin()
    late()


def late():
    """A rank that does not come is named, in the words of the backend on MPI."""
    last = dist.get_world_size() - 1
    for group in [dist.group.WORLD, dist.new_group([0, last])]:
        x = torch.full((3,), float(dist.get_rank() + 1))
        if dist.get_rank() in dist.get_process_group_ranks(group):
            dist.all_reduce(x, group=group)
            assert x.tolist() == [sum(one + 1 for one in dist.get_process_group_ranks(group))] * 3
    dist.barrier()
    options = dist.AllreduceOptions()
    options.timeout = timedelta(milliseconds=300)
    if dist.get_rank() != last:
        with pytest.raises(dist.DistBackendError, match=f"a timeout has passed: .* rank {last} on .*: it is stopped, cut off, "
                                                        f"or busy|rank {last} on .* has not made this call yet"):
            dist.group.WORLD.allreduce([torch.ones(1)], options).wait()
    all_come()


def body_missing():
    """A rank that does not come to a new group."""
    rank, size = begin()
    last = size - 1
    if rank == 0:
        with pytest.raises(dist.DistBackendError, match=f"rank {last} did not come to the group within 700 ms"):
            # To this call the others need not come, so that the last can stay away.
            dist.new_group(list(range(size)), timedelta(milliseconds=700), use_local_synchronization=True)
    dist.barrier()


def body_reductions():
    operations_test.SHAPES = [(5,)]  # ranks that share a core take long for each of thousands of calls
    operations_test.test_reductions.body()


def body_moves():
    operations_test.SHAPES = [(3, 4)]
    operations_test.test_moves.body()


def body_split():
    rank, size = begin()
    half = [one for one in range(size) if one % 2 == rank % 2]
    part = dist.group.WORLD._get_backend(torch.device("cpu"))
    groups = [dist.new_group([one for one in range(size) if one % 2 == odd]) for odd in range(2)]
    x = torch.tensor([float(rank)])
    dist.all_reduce(x, group=groups[rank % 2])
    assert x.item() == sum(half) and part.name() == "tutti"
    alone = dist.new_group(half, use_local_synchronization=True)
    dist.all_reduce(x, group=alone)
    assert x.item() == sum(half) * len(half)


def body_taken_port():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        os.environ["MASTER_PORT"] = str(taken.getsockname()[1])
        if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
            with pytest.raises(RuntimeError, match="address already in use|EADDRINUSE"):
                dist.init_process_group("tutti", "mpi://")
        else:
            with pytest.raises(dist.DistStoreError, match="rank 0 cannot serve torch's store"):
                dist.init_process_group("tutti", "mpi://")
    del os.environ["MASTER_PORT"]


def body_wrong_size():
    rank, limit = int(os.environ["OMPI_COMM_WORLD_RANK"]), timedelta(seconds=20)
    with pytest.raises(ValueError, match="world_size is 5, but for MPI it is 2; leave rank and size to it"):
        dist.init_process_group("tutti", "mpi://", limit, world_size=5, rank=rank)
    dist.init_process_group("tutti", "mpi://", limit, world_size=2, rank=rank)
    dist.barrier()


def test_two_ranks(tmp_path):
    call(2, tmp_path, OF_TWO, TUTTI_BACKEND="mpi")


def test_three_ranks(tmp_path):
    call(3, tmp_path, OF_MORE, TUTTI_BACKEND="mpi")


def test_an_init_method_chooses_mpi(tmp_path):
    call(2, tmp_path, ["mpi_test.body_taken_port", "mpi_test.body_by_url", "mpi_test.body_wrong_size"])


@pytest.mark.parametrize(("name", "size"), one_by_rotation(EXAMPLES))
def test_example(name, size):
    """Started by tuttirun, which says to the program what mpirun does not."""
    program = HERE.parents[2] / "examples" / "torch" / f"{name}.py"
    inherited = {one: value for one, value in os.environ.items() if one not in OF_A_RANK}
    done = stacks.python("-m", "tutti.distributed.run", "--backend", "mpi", "--nproc-per-node", size, program, limit=LIMIT,
                         env={**inherited, "TUTTI_MPI_LIBRARY": "libmpi.so.40", "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0 and f"{size} ranks" in done.stdout, done.stdout + done.stderr


def test_a_program_that_names_mpi_runs_as_it_is(script, tmp_path):
    program = script("""
        import sys
        import torch
        import torch.distributed as dist

        assert dist.is_mpi_available()
        for name in ("mpi", "cpu:mpi"):
            dist.init_process_group(name, rank=-1, world_size=0)  # as torch's own backend does, it asks MPI
            for group in [None, dist.new_group([0, 1]), dist.new_group([0, 1], backend="mpi")]:
                x = torch.ones(3)
                dist.all_reduce(x, group=group)
                assert x.tolist() == [2, 2, 2]
                assert type((group or dist.group.WORLD)._get_backend(torch.device("cpu"))).__name__ == "ProcessGroupTutti"
            rank = dist.get_rank()
            dist.destroy_process_group()
        open(f"{sys.argv[1]}/done {rank}", "x").close()
    """)
    ended = started(2, [str(program), str(tmp_path)], module="tutti.torch")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert sorted(one.name for one in tmp_path.glob("done *")) == ["done 0", "done 1"]


def test_tensors_that_mpi_still_uses_stay(script, tmp_path):
    program = script("""
        import os
        import sys
        import weakref
        from datetime import timedelta
        import numpy as np
        import torch
        import torch.distributed as dist
        import tutti.torch

        dist.init_process_group("tutti", "mpi://")
        rank = dist.get_rank()
        group = dist.new_group(timeout=timedelta(seconds=1))
        dist.barrier()
        if rank == 0:
            array = np.empty(1 << 28, dtype=np.uint8)  # more than MPI sends before there is a recv
            memory = weakref.ref(array)
            try:
                dist.send(torch.from_numpy(array), 1, group)
                raise SystemExit("no error")
            except dist.DistBackendError as problem:
                assert "keep them until the process ends" in str(problem)
            del array
            assert memory() is not None
        else:
            try:
                dist.recv(torch.empty(1), 0, group, tag=1)
                raise SystemExit("no error")
            except dist.DistBackendError:
                pass
        open(f"{sys.argv[1]}/done {rank}", "x").close()
        os._exit(0)  # MPI_Finalize would wait for the message
    """)
    ended = started(2, [str(program), str(tmp_path)])
    assert sorted(one.name for one in tmp_path.glob("done *")) == ["done 0", "done 1"], ended.stdout + ended.stderr


@on_ranks(2, TUTTI_BACKEND="mpi", TUTTI_MPI_LIBRARY="libmpi.so.40")
def test_ranks_that_mpirun_has_not_started_are_told_so():
    with pytest.raises(ValueError, match="for MPI it is rank 0 of 1; start the program by MPI's own mpirun"):
        begin()
