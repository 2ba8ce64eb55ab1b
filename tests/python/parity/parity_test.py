"""The same program under torch.distributed with gloo and under tutti.distributed, cell by cell.

torch itself runs on one number of ranks, which TUTTI_ROTATION chooses; on the others its stored results take its
place (stored.py)."""

import importlib.util
import inspect
import os
import pathlib
import pickle
import re
import select
import signal
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import ranks  # noqa: E402
import stored  # noqa: E402
from differences import DIFFERENCES, ENGINE_TEXT, LISTED, VALUE  # noqa: E402

if importlib.util.find_spec("torch") is None:  # it is not imported here: that takes seconds
    pytest.skip("torch is not installed (./dev deps torch)", allow_module_level=True)

SIZES = [1, 2, 3, 4, 5, 8]
LIMIT = 240.0  # seconds for all ranks of a size
LEAST_CELLS = 2000
ROOT = HERE.parents[2]

# What torch.distributed calls its errors, and we.
ERROR_NAMES = {"DistError": "Error", "DistBackendError": "Error", "DistNetworkError": "NetworkError",
               "DistStoreError": "StoreError"}

counted = {}  # by size: cells that gloo can do and that were compared
seen = set()  # entries of the table that were needed
engine_texts = {}  # by cell: our errors where the text is the engine's
recorded = {}  # by size: what torch gave, if it is to be stored
all_right = set()  # sizes without a wrong outcome: only these are worth storing


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
            if entry.ours == LISTED and not is_a(theirs, ours):
                continue  # the text is another one, the class is not
            return entry
    return None


def is_expected(entry, cell, ours, known, listed):
    """True if ours is as the entry says. Values that are known have been compared already."""
    if entry.ours == VALUE:
        return cell in known
    if entry.ours != LISTED:
        return entry.ours.is_met_by(ours)
    form = stored.engine_form(ours)
    engine_texts.setdefault(cell, set()).add(form)
    return stored.recording() or form in listed.get(cell, ())


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    """A process that has imported torch, and forks ranks when asked."""
    environment = dict(os.environ, MASTER_ADDR="127.0.0.1", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    environment.pop("LOCAL_RANK", None)
    process = subprocess.Popen([sys.executable, str(HERE / "worker.py")], env=environment, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    yield process
    process.stdin.close()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # ranks that hang are in its session
        process.wait()


def answer(process):
    """The next line that it says."""
    ready, _, _ = select.select([process.stdout], [], [], LIMIT)
    line = process.stdout.readline() if ready else ""
    assert line, f"the worker said nothing in {LIMIT} s"
    return line.split()


def run_ranks(worker, size, folder, real, tries=2):
    """What all ranks wrote. Where a rank did not survive torch's own half, once more."""
    if not hasattr(worker, "ready"):
        assert answer(worker) == ["ready"]
        worker.ready = True
    folder = folder / str(tries)
    folder.mkdir()
    worker.stdin.write(f"{size} {ranks.free_port() if real else '-'} {ranks.free_port()} {folder}\n")
    worker.stdin.flush()
    statuses = answer(worker)
    survived = all((folder / f"{rank}.torch").exists() for rank in range(size))
    if set(statuses) != {"0"} and not survived and tries > 1:
        print(f"torch's half failed on {size} ranks: {statuses}; trying again")
        return run_ranks(worker, size, folder.parent, real, tries - 1)
    for rank, status in enumerate(statuses):
        text = (folder / f"{rank}.err").read_text(errors="replace")[-3000:]
        assert status == "0", f"rank {rank} of {size}: {status}\n{text}"
    return [pickle.loads((folder / f"{rank}.pickle").read_bytes()) for rank in range(size)]


def theirs_of(size, results, real):
    """For each rank what torch gave: now, or when it was stored. Both must be equal."""
    if not real:
        return stored.read(size)
    now = [{cell: stored.kept(outcome) for cell, outcome in result[0].items()} for result in results]
    if stored.recording():
        recorded[size] = now
    elif stored.file_of_torch().exists():
        before = stored.read(size)
        changed = [f"{cell} on rank {rank} of {size}:\n  stored: {before[rank].get(cell)}\n  now:    {outcome}"
                   for rank in range(size) for cell in now[rank].keys() | before[rank].keys()
                   if before[rank].get(cell) != (outcome := now[rank].get(cell))]
        assert not changed, (f"torch gives {len(changed)} other results than {stored.file_of_torch().name} has; "
                             "TUTTI_PARITY_RECORD=1 stores them anew. The first:\n" + "\n".join(changed[:20]))
    return now


@pytest.mark.parametrize("size", SIZES)
def test_every_cell_is_equal_or_listed(size, worker, tmp_path):
    real = size in stored.real_sizes(SIZES)
    results = run_ranks(worker, size, tmp_path, real)
    every_theirs, texts = theirs_of(size, results, real), stored.read_engine_texts()
    wrong, listed, compared = [], {}, 0
    for rank, (*_, differing) in enumerate(results):
        wrong += [f"{cell} on rank {rank} of {size}:\n  expected: {str(value)[:300]}\n  tutti: {str(ours)[:300]}"
                  for cell, value, ours in differing]
    lost = sorted(set(every_theirs[0]) - set(results[0][1]))
    wrong += [f"{cell}: the results of torch have it, and nothing ran it" for cell in lost]
    for cell in results[0][1]:
        names = set()
        for rank, (_, all_ours, _, known, _) in enumerate(results):
            theirs, outcome = every_theirs[rank].get(cell, ("nothing",)), all_ours[cell]
            ours = ("value", stored.token(outcome[1]), outcome[2]) if outcome[0] == "value" else outcome
            if same(theirs, ours):
                continue
            entry = explained(cell, theirs, ours)
            names.add(entry and entry.name)
            if entry is None or not is_expected(entry, cell, ours, known, texts):
                what = f"is not what the entry {entry.name!r} says" if entry else "differs, and no entry fits"
                wrong.append(f"{cell} on rank {rank} of {size} {what}:\n  torch: {str(theirs)[:300]}\n  tutti: "
                             f"{str(outcome)[:300]}")
        for name in names - {None}:
            listed[name] = listed.get(name, 0) + 1
            seen.add(name)
        # An error of gloo's that we do not have is nothing that gloo can do.
        if not names or names == {"Texts of the engine"}:
            compared += 1
    counted[size] = compared
    slowest = [max(result[2][which] for result in results) for which in (0, 1)]
    print(f"parity on {size} ranks: {compared} cells compared, {sum(listed.values())} listed differences, "
          f"{len(wrong)} wrong; torch {f'{slowest[0]:.1f} s' if real else 'stored'}, tutti {slowest[1]:.1f} s")
    assert not wrong, f"{len(wrong)} wrong outcomes, the first:\n" + "\n".join(wrong[:20])
    all_right.add(size)


def test_the_table_is_needed_and_documented(record_property):
    if set(counted) != set(SIZES):
        pytest.skip("needs the cells of all sizes, which were not all run")
    if stored.recording():
        assert all_right == set(SIZES), "a wrong outcome is not stored: see the cells above"
        stored.write(recorded)
        stored.write_engine_texts(engine_texts)
    names = {entry.name for entry in DIFFERENCES}
    assert seen == names, f"entries that no cell needs: {sorted(names - seen)}"
    assert engine_texts == stored.read_engine_texts(), f"{stored.ENGINE_FILE.name} has texts that no cell needs"
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    missing = sorted(name for name in names if f"**{name}.**" not in text)
    assert not missing, f"docs/semantics.md does not list: {missing}"
    record_property("summary", f"parity: {sum(counted.values())} cells compared on {SIZES} ranks, 0 unlisted "
                               f"differences; torch itself ran on {stored.real_sizes(SIZES)} (TUTTI_ROTATION chooses "
                               f"them), elsewhere the stored results of {stored.version()} were taken")
    assert sum(counted.values()) >= LEAST_CELLS


def public_names():
    import torch.distributed as theirs
    modules = {name for name in dir(theirs) if inspect.ismodule(getattr(theirs, name))}
    return sorted(name for name in dir(theirs) if not name.startswith("_") and name not in modules)


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
    assert count > 55, f"only {count} functions were found"
    assert not wrong, "\n".join(wrong)


def test_a_group_has_what_theirs_has():
    """Each name of a group's object, and of what a Work is, answers or says why it does not."""
    import torch.distributed as theirs
    import tutti.distributed as ours
    for kind in ("ProcessGroup", "Work"):
        names = [name for name in dir(getattr(theirs, kind)) if not name.startswith(("__", "_pybind11"))]
        assert len(names) > 10, f"only {names} were found"
        missing = [name for name in names if not hasattr(getattr(ours, kind), name)]
        assert not missing, f"{kind} lacks {missing}"


def test_engine_texts_are_not_fixed_ones():
    """The pattern must not swallow texts that Python programs rely on."""
    for text in ("Default process group has not been initialized, please make sure to call init_process_group.",
                 "Invalid destination rank: destination rank should not be the same as the rank of the current "
                 "process.", "Argument ``gather_list`` must be specified on destination rank.",
                 "Can't specify both group_rank and global_rank", "trying to initialize the default process group "
                 "twice!"):
        assert not ENGINE_TEXT.search(text)
