"""The same program under torch.distributed with gloo and under tutti.distributed, cell by cell.

torch itself runs on one number of ranks, which TUTTI_ROTATION chooses; on the others its stored results take its
place (stored.py). Without torch all results are the stored ones, and ours is called with NumPy arrays (arrays.py)."""

import os
import pathlib
import pickle
import re
import select
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import comparison  # noqa: E402
import ranks  # noqa: E402
import stacks  # noqa: E402
import stored  # noqa: E402
import suites  # noqa: E402
from arrays import HAS_TORCH  # noqa: E402
from differences import DIFFERENCES, ENGINE_TEXT, NEEDS_TORCH, WARNINGS  # noqa: E402

pytestmark = [pytest.mark.torch] if HAS_TORCH else []
SIZES = {"cells": [1, 2, 3, 4, 5, 8], "programs": [1, 2, 3, 4], "lives": [1, 2, 3]}  # numbers of ranks, by suite (suites.py)
# Over TCP ours runs once more; what torch gave stays the same.
if not HAS_TORCH:  # as all tests that ./dev test runs
    SIZES = {suite: ranks.sizes(others=sizes[3:] + sizes[:1]) for suite, sizes in SIZES.items()}
JOBS = [(suite, size, "auto") for suite, sizes in SIZES.items() for size in sizes]
JOBS += [(suite, size, "tcp") for suite, size in (("programs", 2), ("programs", 4), ("lives", 2)) if HAS_TORCH or size == 2]
LIMIT = 240.0  # seconds for all ranks of a size
LEAST = {"cells": 2000, "programs": 3000}
ROOT = HERE.parents[2]

counted = {}  # by job: cells that gloo can do and that were compared
seen = set()  # entries of the table that were needed
engine_texts = {}  # by cell: our errors where the text is the engine's
recorded = {}  # by suite and size: what torch gave, if it is to be stored
all_right = set()  # jobs without a wrong outcome: only these are worth storing


@pytest.fixture(scope="module")
def worker():
    """A process that has imported torch, if it is there, and forks ranks when asked."""
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    environment.pop("LOCAL_RANK", None)
    process = subprocess.Popen([sys.executable, str(HERE / "worker.py")], env=environment, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    yield process
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        print(stacks.end(process.pid))  # ranks that hang are below it
        process.wait()


def answer(process):
    """The next line that it says."""
    ready, _, _ = select.select([process.stdout], [], [], LIMIT)
    line = process.stdout.readline() if ready else ""
    assert line, f"the worker said nothing in {LIMIT} s\n{stacks.end(process.pid)}"
    return line.split()


def run_ranks(worker, job, folder, real, seed=0, tries=2):
    """What all ranks wrote. Where a rank did not survive torch's own half, once more."""
    if not hasattr(worker, "ready"):
        assert answer(worker) == ["ready"]
        worker.ready = True
    suite, size, transport = job
    folder = folder / str(tries)
    folder.mkdir(parents=True)
    worker.stdin.write(f"{suite} {seed} {size} {ranks.free_port() if real else '-'} {ranks.free_port()} {transport} "
                       f"{folder}\n")
    worker.stdin.flush()
    statuses = answer(worker)
    survived = all((folder / f"{rank}.torch").exists() for rank in range(size))
    if set(statuses) != {"0"} and not survived and tries > 1:
        print(f"torch's half failed on {size} ranks: {statuses}; trying again")
        return run_ranks(worker, job, folder.parent, real, seed, tries - 1)
    for rank, status in enumerate(statuses):
        text = (folder / f"{rank}.err").read_text(errors="replace")[-3000:]
        assert status == "0", f"rank {rank} of {size}: {status}\n{text}"
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(size)]


def run_suite(worker, job, folder, real):
    """As run_ranks; programs that join a world themselves one by one, in new processes."""
    suite, size, transport = job
    if suite != "lives":
        return run_ranks(worker, job, folder, real)
    every = [run_ranks(worker, (f"lives.{name}", size, transport), folder / name, real) for name in suites.lives()]
    return [together([results[rank] for results in every]) for rank in range(size)]


def together(parts):
    """What one rank wrote in several programs."""
    theirs, ours, times, known, wrong = zip(*parts)
    return ({cell: outcome for each in theirs for cell, outcome in each.items()} if None not in theirs else None,
            {cell: outcome for each in ours for cell, outcome in each.items()},
            tuple(map(sum, zip(*times))), set().union(*known), [each for some in wrong for each in some])


def theirs_of(job, results, real):
    """For each rank what torch gave: now, or when it was stored. Both must be equal."""
    suite, size, _ = job
    if not real:
        return recorded[suite, size] if stored.recording() else stored.read(suite, size)
    now = [{cell: stored.kept(outcome) for cell, outcome in result[0].items()} for result in results]
    if stored.recording():
        recorded[suite, size] = now
    elif suite in SIZES and stored.file_of_torch(suite).exists():
        before = stored.read(suite, size)
        changed = [f"{cell} on rank {rank} of {size}:\n  stored: {before[rank].get(cell)}\n  now:    {outcome}"
                   for rank in range(size) for cell in now[rank].keys() | before[rank].keys()
                   if before[rank].get(cell) != (outcome := now[rank].get(cell))]
        assert not changed, (f"torch gives {len(changed)} other results than {stored.file_of_torch(suite).name} has; "
                             "TUTTI_PARITY_RECORD=1 stores them anew. The first:\n" + "\n".join(changed[:20]))
    return now


def check(job, results, every_theirs):
    """Every outcome is equal, or is what an entry of the table says."""
    suite, size, transport = job
    compared, listed, wrong = comparison.compared(size, results, every_theirs, engine_texts)
    counted[job] = compared
    seen.update(listed)
    slowest = [max(result[2][which] for result in results) for which in (0, 1)]
    print(f"parity of {suite} on {size} ranks ({transport}): {compared} compared, {sum(listed.values())} listed "
          f"differences, {len(wrong)} wrong; torch {f'{slowest[0]:.1f} s' if slowest[0] > 0.001 else 'stored'}, tutti "
          f"{slowest[1]:.1f} s")
    assert not wrong, f"{len(wrong)} wrong outcomes, the first:\n" + "\n".join(wrong[:20])
    all_right.add(job)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job[0]}-{job[1]}-{job[2]}")
def test_everything_is_equal_or_listed(job, worker, tmp_path):
    suite, size, transport = job
    real = transport == "auto" and size in stored.real_sizes(suite, SIZES[suite])
    results = run_suite(worker, job, tmp_path, real)
    check(job, results, theirs_of(job, results, real))


if ranks.LONG:
    @pytest.mark.torch
    @pytest.mark.parametrize("transport", ["auto", "tcp"])
    @pytest.mark.parametrize("size", [1, 2, 3, 4])
    def test_wide(size, transport, worker, tmp_path):
        """Random programs, with torch beside them."""
        for seed in range(10):
            (tmp_path / str(seed)).mkdir()
            job = ("wide", size, transport)
            results = run_ranks(worker, job, tmp_path / str(seed), True, 100 * size + seed)
            check(job, results, theirs_of(job, results, True))


def test_the_table_is_needed_and_documented(record_property):
    if not set(JOBS) <= set(counted):
        pytest.skip("needs all jobs, which were not all run")
    if stored.recording():
        assert all_right >= set(JOBS), "a wrong outcome is not stored: see the cells above"
        for suite, sizes in SIZES.items():
            stored.write(suite, {size: recorded[suite, size] for size in sizes})
        stored.write_engine_texts(engine_texts)
    names = {entry.name for entry in DIFFERENCES} | set(WARNINGS)
    if HAS_TORCH:  # without it some steps do not run
        assert seen == names, f"entries that no cell needs: {sorted(names - seen)}"
        assert engine_texts == stored.read_engine_texts(), f"{stored.ENGINE_FILE.name} has texts that no cell needs"
    text = (ROOT / "docs/reference/semantics.md").read_text(encoding="utf-8")
    missing = sorted(name for name in names if f"**{name}.**" not in text)
    assert not missing, f"docs/reference/semantics.md does not list: {missing}"
    totals = {suite: sum(count for job, count in counted.items() if job[0] == suite) for suite in SIZES}
    real = {suite: stored.real_sizes(suite, sizes) for suite, sizes in SIZES.items()}
    where = f"torch itself ran on {real} ranks (TUTTI_ROTATION chooses them), elsewhere" if HAS_TORCH else "everywhere"
    record_property("summary", f"parity: {totals} compared, 0 unlisted differences; {where} the stored results of "
                               f"{stored.version()} were taken")
    assert all(totals[suite] >= least for suite, least in LEAST.items()), totals


def test_steps_that_need_torch_are_counted(record_property):
    """Nothing else is left out where there is no torch."""
    cells = [cell for suite in SIZES for cell in stored.cells(suite)]
    found = [(why, sum(bool(re.search(pattern, cell)) for cell in cells)) for pattern, why, _ in NEEDS_TORCH]
    assert found == [(why, count) for _, why, count in NEEDS_TORCH]
    if not HAS_TORCH:
        record_property("summary", f"parity: {sum(count for _, count in found)} of {len(cells)} steps need torch (./dev test "
                                   f"full sizes:python)")


def test_engine_texts_are_not_fixed_ones():
    """The pattern must not swallow texts that Python programs rely on."""
    for text in ("Default process group has not been initialized, please make sure to call init_process_group.",
                 "Invalid destination rank: destination rank should not be the same as the rank of the current "
                 "process.", "Argument ``gather_list`` must be specified on destination rank.",
                 "Can't specify both group_rank and global_rank", "trying to initialize the default process group "
                 "twice!"):
        assert not ENGINE_TEXT.search(text)
