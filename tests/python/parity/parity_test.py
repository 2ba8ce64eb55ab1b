"""The same program under torch.distributed with gloo and under tutti.distributed, cell by cell."""

import inspect
import os
import pathlib
import pickle
import re
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import ranks  # noqa: E402
from differences import DIFFERENCES, ENGINE_TEXT  # noqa: E402

torch = pytest.importorskip("torch", reason="torch is not installed (./dev deps torch)")

SIZES = [1, 2, 3, 4, 5, 8]
LIMIT = 240.0  # seconds for all ranks of a size
LEAST_CELLS = 2000
ROOT = HERE.parents[2]

# What torch.distributed calls its errors, and we.
ERROR_NAMES = {"DistError": "Error", "DistBackendError": "Error", "DistNetworkError": "NetworkError",
               "DistStoreError": "StoreError"}

counted = {}  # by size: cells that gloo can do and that were compared
seen = set()  # entries of the table that were needed


def plain(text):
    return " ".join(text.replace("torch.distributed", "tutti.distributed").split())


def same(theirs, ours):
    """An error of ours is-a the error of theirs, and its text begins with theirs."""
    if theirs[0] == ours[0] == "value":
        return theirs == ours
    if theirs[0] != ours[0]:
        return False
    kind = theirs[1][0]
    return (ERROR_NAMES.get(kind, kind) in ours[1] and plain(ours[2]).startswith(plain(theirs[2]))
            and theirs[3] == ours[3])


def is_a(theirs, ours):
    kind = theirs[1][0]
    return ERROR_NAMES.get(kind, kind) in ours[1]


def explained(cell, theirs, ours):
    """The entry of the table that fits."""
    for entry in DIFFERENCES:
        if entry.fits(cell, theirs, ours):
            if entry.name == "Texts of the engine" and not is_a(theirs, ours):
                continue  # the text is free, the class is not
            return entry.name
    return None


def run_ranks(size, folder):
    environment = dict(os.environ, WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", OPENBLAS_NUM_THREADS="1",
                       OMP_NUM_THREADS="1")
    environment.pop("LOCAL_RANK", None)
    ports = [str(ranks.free_port()) for _ in range(2)]
    files = [folder / f"{rank}.pickle" for rank in range(size)]
    jobs = []
    try:
        for rank in range(size):
            with open(folder / f"{rank}.err", "wb") as error:
                jobs.append(subprocess.Popen([sys.executable, str(HERE / "worker.py"), *ports, str(files[rank])],
                                             env=dict(environment, RANK=str(rank)), stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=error))
        end = time.monotonic() + LIMIT
        for rank, job in enumerate(jobs):
            job.wait(timeout=max(0.1, end - time.monotonic()))
            text = (folder / f"{rank}.err").read_text(errors="replace")[-3000:]
            assert job.returncode == 0, f"rank {rank} of {size}: {job.returncode}\n{text}"
    finally:
        for job in jobs:
            if job.poll() is None:
                job.kill()
            job.wait()
    return [pickle.loads(file.read_bytes()) for file in files]


@pytest.mark.parametrize("size", SIZES)
def test_every_cell_is_equal_or_listed(size, tmp_path):
    results = run_ranks(size, tmp_path)
    unlisted, listed, compared = [], {}, 0
    for cell in results[0][0]:
        outcomes = [(theirs[cell], ours[cell]) for theirs, ours, _ in results]
        names = set()
        for rank, (theirs, ours) in enumerate(outcomes):
            if same(theirs, ours):
                continue
            name = explained(cell, theirs, ours)
            if name is None:
                unlisted.append(f"{cell} on rank {rank} of {size}:\n  torch: {str(theirs)[:300]}\n  tutti: "
                                f"{str(ours)[:300]}")
            names.add(name)
        for name in names - {None}:
            listed[name] = listed.get(name, 0) + 1
            seen.add(name)
        # An error of gloo's that we do not have is nothing that gloo can do.
        if not names or names == {"Texts of the engine"}:
            compared += 1
    counted[size] = compared
    slowest = [max(result[2][which] for result in results) for which in (0, 1)]
    print(f"parity on {size} ranks: {compared} cells compared, {sum(listed.values())} listed differences, "
          f"{len(unlisted)} unlisted; torch {slowest[0]:.1f} s, tutti {slowest[1]:.1f} s")
    assert not unlisted, f"{len(unlisted)} unlisted differences, the first:\n" + "\n".join(unlisted[:20])


def test_the_table_is_needed_and_documented(capsys):
    if set(counted) != set(SIZES):
        pytest.skip("needs the cells of all sizes, which were not all run")
    names = {entry.name for entry in DIFFERENCES}
    assert seen == names, f"entries that no cell needs: {sorted(names - seen)}"
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    missing = sorted(name for name in names if f"**{name}.**" not in text)
    assert not missing, f"docs/semantics.md does not list: {missing}"
    with capsys.disabled():
        print(f"\nparity: {sum(counted.values())} cells compared on {SIZES} ranks, 0 unlisted differences")
    assert sum(counted.values()) >= LEAST_CELLS


def public_names():
    import torch.distributed as theirs
    modules = {name for name in dir(theirs) if inspect.ismodule(getattr(theirs, name))}
    return sorted(name for name in dir(theirs) if not name.startswith("_") and name not in modules)


def test_every_public_name_is_here_or_in_the_table():
    import tutti.distributed as ours
    text = (ROOT / "docs" / "torch-names.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", text, re.MULTILINE))
    wrong = []
    for name in public_names():
        if name not in rows:
            wrong.append(f"{name} is not in docs/torch-names.md")
        elif hasattr(ours, name) != rows[name].startswith("here"):
            wrong.append(f"{name}: docs/torch-names.md says {rows[name]!r}")
    assert not wrong, "\n".join(wrong)


def test_parameters_are_theirs():
    """Same names, order and defaults; what we have beyond is keyword-only."""
    import torch.distributed as theirs
    import tutti.distributed as ours
    count, wrong = 0, []
    for name in public_names():
        their, our = getattr(theirs, name), getattr(ours, name, None)
        if our is None or not inspect.isfunction(our) or not inspect.isfunction(their):
            continue
        count += 1
        their_list = [p for p in inspect.signature(their).parameters.values() if not p.name.startswith("_")]
        our_list = [p for p in inspect.signature(our).parameters.values() if p.kind is not p.KEYWORD_ONLY
                    or p.name in {q.name for q in their_list}]
        if [(p.name, p.kind.name) for p in their_list if p.kind is not p.VAR_KEYWORD] != \
                [(p.name, p.kind.name) for p in our_list if p.kind is not p.VAR_KEYWORD]:
            wrong.append(f"{name}: {inspect.signature(their)} there, {inspect.signature(our)} here")
            continue
        for p, q in zip(their_list, our_list):
            if str(p.default) != str(q.default):
                wrong.append(f"{name}: {p.name}={p.default} there, {q.default} here")
    assert count > 60, f"only {count} functions were found"
    assert not wrong, "\n".join(wrong)


def test_engine_texts_are_not_fixed_ones():
    """The pattern must not swallow texts that Python programs rely on."""
    for text in ("Default process group has not been initialized, please make sure to call init_process_group.",
                 "Invalid destination rank: destination rank should not be the same as the rank of the current "
                 "process.", "Argument ``gather_list`` must be specified on destination rank.",
                 "Can't specify both group_rank and global_rank", "trying to initialize the default process group "
                 "twice!"):
        assert not ENGINE_TEXT.search(text)
