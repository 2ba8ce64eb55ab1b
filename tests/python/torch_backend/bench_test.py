"""The benchmarks through torch run, with few and small measurements: their figures mean nothing here."""

import json
import os
import pathlib

import pytest

import stacks

BENCH = pathlib.Path(__file__).parents[3] / "apps/bench"
KINDS = {"C++", "torch", "all_reduce_", "torch.ops", "dist, plug-in", "dist, Python fallback"}


def run(name, *options):
    return stacks.said(BENCH / name, *options, limit=100, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})


def test_all_reduce(tmp_path):
    figures = tmp_path / "figures.json"
    text = run("torch/all_reduce.py", "--ranks", 2, "--bytes", 512, "--dtypes", "bfloat16", "--rounds", 2,
               "--budget", 0.001, "--against", "gloo", "--json", figures)
    assert "geometric mean" in text
    cell, = json.loads(figures.read_text())
    assert (cell["ranks"], cell["dtype"], cell["bytes"]) == (2, "bfloat16", 512)
    assert set(cell["seconds"]) == {"operator", "tutti", "gloo"} and all(map(all, cell["seconds"].values()))


def test_training(tmp_path):
    events = tmp_path / "step.json"
    text = run("torch/training.py", "--ranks", 2, "--layers", 2, "--width", 64, "--rounds", 1, "--steps", 1,
               "--trace", events)
    for figure in ("ddp: step", "ddp: communication", "ddp: buckets", "fsdp: step", "fsdp: communication"):
        assert figure in text
    names = [event["name"] for event in json.loads(events.read_text())["traceEvents"]]
    assert "backward" in names and any(name.startswith("bucket 0") for name in names)


def test_overhead():
    lines = run("python/overhead.py", "--rounds", 1, "--calls", 10).splitlines()
    assert KINDS - {"C++"} <= {line[:22].strip() for line in lines}


def test_shared_memory():
    lines = stacks.said("-m", "tutti.distributed.run", "--nproc-per-node", "2", BENCH / "python/shared_memory.py",
                        "--mib", "0.3", "--rounds", "2", "--calls", "1").splitlines()
    assert lines[0].startswith("2 ranks, 0.3 MiB")
    assert [line[:20].strip() for line in lines[1:]] == ["own memory", "mapped", "by hand"]


@pytest.mark.parametrize(("option", "said"), [("--against=nccl", "it is gloo, deepspeed or none"), ("--ranks=x", "argument --ranks: invalid")])
def test_a_wrong_option_is_told(option, said):
    done = stacks.python(BENCH / "torch/all_reduce.py", option)
    assert done.returncode != 0 and said in done.stderr
