"""The plug-in in a real vLLM. A start of vLLM takes one to three minutes on two cores."""

import json
import subprocess
import sys

import pytest
from conftest import HERE, environment, job, needs_vllm

pytestmark = needs_vllm
STOCK = {"VLLM_PLUGINS": ""}  # no plug-in


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    subprocess.run([sys.executable, HERE / "model.py", folder], check=True, timeout=120)
    return folder


def generate(model, *options, **variables):
    """The tokens, and what the groups of each worker run on."""
    ended = subprocess.run([sys.executable, HERE / "generate.py", model, *options], text=True, capture_output=True,
                           env=environment(**variables), timeout=900)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    said = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith('{"tokens"')))
    return said["tokens"], said["groups"]


@pytest.mark.parametrize("size", [2, 3])
def test_group_coordinator(size):
    """vLLM's own group, with the communicator that it makes."""
    ended = job(size, "coordinator", limit=300)
    assert ended.returncode == 0, ended.stdout


@pytest.mark.parametrize("eager", ["true", "false"])
def test_tokens_are_those_of_the_stock_build(model, eager):
    options = ["tensor_parallel_size=2", f"enforce_eager={eager}"]
    stock, groups = generate(model, *options, **STOCK)
    for worker in groups:
        for on, module in worker.values():
            assert on == "gloo" and module == "vllm.distributed.device_communicators.cpu_communicator"
    ours, groups = generate(model, *options)
    assert len(groups) == 2
    for worker in groups:
        assert list(worker) == ["tp"]
        for on, module in worker.values():
            assert on == "tutti" and module == "tutti_vllm.communicator"
    assert ours == stock
    assert len({tuple(each) for each in ours}) == 4 and all(len(each) == 24 for each in ours)
