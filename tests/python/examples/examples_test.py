"""Every example in examples/python runs, and says that all is well with its exit status."""

import pathlib
import re
import subprocess
import sys

import pytest

LIMIT = 60
FOLDER = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"
# By how many ranks tuttirun starts it; none: it starts its ranks itself.
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
}
TRAINING = "20_digits_training"
CASES = [(name, ranks) for name, all_ranks in RANKS.items() for ranks in all_ranks or [None]]


def run(name, ranks):
    file = FOLDER / f"{name}.py"
    launcher = [] if ranks is None else ["-m", "tutti.distributed.run", "--nproc-per-node", str(ranks)]
    done = subprocess.run([sys.executable, *launcher, str(file)], capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_list_is_complete():
    assert {file.stem for file in FOLDER.glob("*.py")} == {*RANKS, TRAINING}
    # Each has a counterpart in C++, and each in C++ one here.
    in_cpp = {file.stem for file in FOLDER.parent.glob("*.cpp")} | {
        folder.name for folder in FOLDER.parent.iterdir() if folder.name == TRAINING}
    assert in_cpp == {*RANKS, TRAINING}


@pytest.mark.parametrize(("name", "ranks"), CASES, ids=[f"{name}-{ranks}" for name, ranks in CASES])
def test_example(name, ranks):
    said = run(name, ranks)
    if name == "01_hello":
        assert sorted(said.splitlines()) == [f"hello from rank {rank} of {ranks}" for rank in range(ranks)]
    elif name == "06_failing_rank":
        assert said.count("[rank 0]") == 3
    else:
        assert said


def test_training_ends_with_the_same_bits_on_1_2_and_4_processes():
    results = {}
    for ranks in (1, 2, 4):
        said = run(TRAINING, ranks)
        found = re.search(r"all replicas are bit-identical, checksum (\w+)\s.*accuracy (0\.\d{4})\s*$", said,
                          re.DOTALL)
        assert found, said
        results[ranks] = found.groups()
    assert len(set(results.values())) == 1, results
