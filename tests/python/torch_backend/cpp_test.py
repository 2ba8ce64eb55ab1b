"""tutti::torch, the library for LibTorch: its programs, on the ranks of a job."""

import functools
import os
import pathlib
import re
import runpy
import signal
import subprocess

import pytest
import torch
import torch._dynamo  # here, so that it is imported once and not in every process
from torch.utils.data import DistributedSampler

import ranks
import stacks
from forked import run
from ranks import LONG, one_by_rotation

ROOT = pathlib.Path(__file__).parents[3]
BUILT = pathlib.Path(os.environ.get("TORCH_CPP_BUILD", ROOT / "build/torch/cpp")) / "bin"
TUTTIRUN = os.environ.get("TORCH_CPP_TUTTIRUN", str(ROOT / "build/torch/prefix/bin/tuttirun"))
CASES = ["operations", "training", "overlap", "arrival", "no_sync", "mismatch", "skipped", "buffers", "hooks", "unused",
         "missing", "static_graph", "changed_graph", "late_graph", "nested_backward", "unused_no_sync", "other_thread",
         "thread_ranks", "two_models", "twice", "join", "checkpoint", "functions",
         "function_edges", "random_steps"]
KILLED = ["killed_in_constructor", "killed_in_first_step", "killed_in_function", "killed_in_hook", "killed_in_join"]
LIMIT = 120
if LONG:
    CASES.append("memory")  # twice 10,000 steps
    LIMIT = 300


@functools.cache
def _lines(size, folder):
    """What all cases say on so many ranks: one job for all, because a process takes long to load torch."""
    done = stacks.run([TUTTIRUN, "--nproc-per-node", size, BUILT / "torch_checks", folder, *CASES], LIMIT,
                      stderr=subprocess.STDOUT)
    return done.stdout, done.returncode


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cpp"))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("case", CASES)
def test_case(case, size, folder):
    text, status = _lines(size, folder)
    said = set(re.findall(rf"ok (\d+) {case}\b", text))
    assert said == {str(rank) for rank in range(size)} and status == 0, text


@pytest.mark.parametrize("case", ["killed", *one_by_rotation(KILLED)])
def test_killed_rank_is_named(case, folder):
    size = 3
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ranks.free_port()),
                   "WORLD_SIZE": str(size)}
    # Without a launcher, which would end the survivors.
    jobs = [stacks.start([BUILT / "torch_checks", folder, case], env={**environment, "RANK": str(rank)},
                         stderr=subprocess.STDOUT) for rank in range(size)]
    try:
        ended = [stacks.finish(job, LIMIT) for job in jobs]
    finally:
        for job in jobs:
            if job.poll() is None:
                job.kill()
    texts = [one.stdout for one in ended]
    assert [one.returncode for one in ended] == [0, 0, -signal.SIGKILL], texts
    assert [f"ok {rank} {case}" in texts[rank] for rank in range(size)] == [True, True, False], texts


def test_samplers_are_those_of_torch():
    lines = stacks.output([BUILT / "torch_checks", "samplers"], LIMIT).splitlines()
    assert len(lines) == 5 * (1 + 2 + 3 + 4 + 8) * 4
    for line in lines:
        what, _, found = line.partition(":")
        size, replicas, rank, shuffle, drop_last = map(int, what.split())
        sampler = DistributedSampler(range(size), replicas, rank, bool(shuffle), seed=11, drop_last=bool(drop_last))
        sampler.set_epoch(replicas)
        expected = list(sampler) if size else []  # torch's own divides by 0
        assert list(map(int, found.split())) == expected, what


def test_program_of_the_readme_trains(tmp_path):
    program = (ROOT / "bindings/torch/cpp/examples/train.cpp").read_text()
    assert f"```cpp\n{program}```" in (ROOT / "bindings/torch/README.md").read_text()
    text = stacks.output([TUTTIRUN, "--nproc-per-node", "2", BUILT / "torch_checks", "readme"], LIMIT, cwd=tmp_path)
    losses = [float(loss) for loss in re.findall(r"epoch \d+: loss ([\d.]+)", text)]
    assert len(losses) == 20 and losses[-1] < losses[0] / 2, text
    assert list(torch.jit.load(str(tmp_path / "train.pt")).state_dict()) == [
        "first.weight", "first.bias", "second.weight", "second.bias"]


def program(name, size):
    said = stacks.output([TUTTIRUN, "--nproc-per-node", size, BUILT / f"torch_{name}"], LIMIT)
    assert said.startswith(f"{size} ranks"), said
    return said


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("name", ["collectives", "training"])
def test_example(name, size):
    program(name, size)


@pytest.mark.parametrize("size", [2, 3])
def test_models_come_to_the_same_losses_in_python(size):
    in_python = run(runpy.run_path, size, str(ROOT / "examples/torch/08_models.py"), limit=LIMIT)[0]
    found, wanted = (re.findall(r"(residual|transformer) (\d+) ([\d.]+)", text)
                     for text in (program("models", size), in_python))
    assert len(found) == 20 and [one[:2] for one in found] == [one[:2] for one in wanted]
    for (name, step, ours), (_, _, theirs) in zip(found, wanted):
        assert abs(float(ours) - float(theirs)) < 1e-9, (name, step)
    for name in ("residual", "transformer"):
        losses = [float(loss) for which, _, loss in found if which == name]
        assert losses[-1] < 0.9 * losses[0], losses
