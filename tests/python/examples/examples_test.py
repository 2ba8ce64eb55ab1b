"""Every example in examples/python runs, and says that all is well with its exit status."""

import pathlib
import re

import pytest

import ranks
import stacks

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
# By how many ranks tuttirun starts it, of which TUTTI_ROTATION chooses one; none: it starts its ranks itself.
RANKS = {
    "01_hello": [1, 4],
    "02_all_reduce": [1, 4],
    "03_broadcast": [3],
    "04_async_overlap": [2],
    "05_sub_group": [1, 4],
    "06_failing_rank": [3],
    "07_threads_as_ranks": [],
    "08_send_recv": [2, 3],
    "09_spawn": [],
    "10_every_operation": [1, 4],
    "11_rows_and_columns": [1, 4, 5],
    "14_linear_regression": [1, 4],
    "15_routing": [1, 4, 5],
    "17_halo": [1, 4, 5],
    "18_farm": [1, 2, 3],
    "19_sample_sort": [1, 2, 3],
    "21_reports": [2, 3],
    "22_config": [2, 3],
}
# Those below have tests of their own.
RENDEZVOUS = "12_rendezvous"
LOCAL_RANK = "13_local_rank"
TRAINING = "20_digits_training"
ALL = {*RANKS, RENDEZVOUS, LOCAL_RANK, TRAINING}
CASES = [(name, size) for name, sizes in RANKS.items() for size in (ranks.one_by_rotation(sizes) if sizes else [None])]


def run(name, size):
    launcher = [] if size is None else ["-m", "tutti.distributed.run", "--nproc-per-node", str(size)]
    return stacks.said(*launcher, str(FOLDER / f"{name}.py"))


# So many ranks are started by mpirun, too, on the backend "mpi"; on it a rank that dies ends the job (06), and ranks are
# neither threads (07) nor children (09). TUTTI_ROTATION chooses one of them.
ON_MPI = [("01_hello", 4), ("02_all_reduce", 3), ("03_broadcast", 3), ("04_async_overlap", 2), ("05_sub_group", 4),
          ("08_send_recv", 3), ("10_every_operation", 3), ("11_rows_and_columns", 4), ("13_local_rank", 3),
          ("14_linear_regression", 2), ("15_routing", 4), ("17_halo", 4), ("18_farm", 3), ("19_sample_sort", 3), ("20_digits_training", 2),
          ("21_reports", 3), ("22_config", 3)]


@pytest.mark.parametrize(("name", "size"), ranks.one_by_rotation(ON_MPI))
@pytest.mark.usefixtures("open_mpi")
def test_example_on_mpi(name, size):
    said = stacks.said("-m", "tutti.distributed.run", "--backend", "mpi", "--nproc-per-node", str(size),
                       str(FOLDER / f"{name}.py"))
    assert said


def names_in(folder, kind):
    """The examples there: a file each, or a folder."""
    return {file.stem for file in folder.iterdir() if file.name[:2].isdigit() and (
        file.suffix == kind or file.is_dir())}


def test_the_list_is_complete():
    assert names_in(FOLDER, ".py") == ALL
    # Each has a counterpart in C++, and each in C++ one here.
    assert names_in(FOLDER.parent, ".cpp") == ALL


@pytest.mark.parametrize(("name", "size"), CASES, ids=[f"{name}-{size}" for name, size in CASES])
def test_example(name, size):
    said = run(name, size)
    if name == "01_hello":
        assert sorted(said.splitlines()) == [f"hello from rank {rank} of {size}" for rank in range(size)]
    elif name == "06_failing_rank":
        assert said.count("[rank 0]") == 3
    else:
        assert said


def test_two_programs_meet():
    start_both = FOLDER.parent / RENDEZVOUS / "start_both.py"
    said = stacks.said(str(start_both), *(str(FOLDER / RENDEZVOUS / f"{which}.py") for which in ("leaves", "stays")))
    assert said.count("has met the other") == 12  # two programs, two orders, three ways


@pytest.mark.parametrize(("options", "told_by"), [
    (["--nproc-per-node=3"], "environment"),
    (["--use-env", "--pass-local-rank", "--nproc_per_node=3"], "environment"),
    (["--pass-local-rank", "--nproc-per-node=3"], "argument")])
def test_local_rank(options, told_by):
    said = stacks.said("-m", "tutti.distributed.run", *options, str(FOLDER / f"{LOCAL_RANK}.py"), "--expect", told_by)
    assert sorted(said.splitlines()) == [f"rank {rank} takes device {rank} (told by the {told_by})"
                                         for rank in range(3)]


def test_training_ends_with_the_same_bits_on_any_number_of_processes():
    results = {}
    for size in ranks.sizes(2, others=(1, 4)):
        said = run(TRAINING, size)
        found = re.search(r"all replicas are bit-identical, checksum (\w+)\s.*accuracy (0\.\d{4})\s*$", said,
                          re.DOTALL)
        assert found, said
        results[size] = found.groups()
    assert len(set(results.values())) == 1, results
