"""The plug-in on a vLLM that has only the names that it touches."""

import importlib.metadata
import pathlib
import re
import sysconfig

import pytest
from conftest import alone, job, needs_vllm, python


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_operations(fake_vllm, size):
    ended = job(size, "operations", fake_vllm)
    assert ended.returncode == 0, ended.stdout


def test_wrong_calls_and_calls_after_the_end(fake_vllm):
    ended = job(2, "misuse", fake_vllm)
    assert ended.returncode == 0, ended.stdout


def test_a_killed_rank_is_named(fake_vllm, tmp_path):
    said = alone(3, fake_vllm, "killed", tmp_path / "killed")
    for rank in (0, 1):
        seconds, pid, text = re.search(r"heard after ([0-9.]+) s of pid (\d+): (.*)", said[rank]).groups()
        assert float(seconds) < 1.0 and "lost rank 2" in text and pid in text, said


def test_import_imports_nothing():
    ended = python("import sys, tutti_vllm; assert not {'vllm', 'torch', 'tutti'} & set(sys.modules)")
    assert ended.returncode == 0, ended.stderr


def test_another_version(fake_vllm, tmp_path):
    for version in ("0.31.2", "0.33.0", "1.0.0", "dev"):
        ended = python(f"import vllm, tutti_vllm; vllm.__version__ = {version!r}; tutti_vllm.register()", fake_vllm)
        assert re.search(f"RuntimeError: tutti-vllm was tested with vLLM 0.32.0 and works with 0.32.*; this is vLLM {version}",
                         ended.stderr), ended.stderr


def test_another_device(fake_vllm):
    ended = python("""
import sys
import vllm.platforms
import vllm.platforms.cpu
import tutti_vllm
vllm.platforms.current_platform.device = "cuda"
tutti_vllm.register()
assert vllm.platforms.cpu.CpuPlatform.dist_backend == "gloo" and "tutti" not in sys.modules
""", fake_vllm)
    assert ended.returncode == 0, ended.stderr


def test_vllm_finds_the_plugin():
    found = importlib.metadata.entry_points(group="vllm.general_plugins", name="tutti")
    assert [each.value for each in found] == ["tutti_vllm:register"]
    assert [each.dist.name for each in found] == ["tutti-vllm"]


def without_plugin(folder):
    """A folder with all that is installed here, but for tutti-vllm."""
    for each in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
        if not each.name.startswith("tutti_vllm"):
            (folder / each.name).symlink_to(each)
    return folder


def test_tutti_alone_is_no_plugin(tmp_path):
    ended = python("""
import importlib.metadata
import tutti
named = importlib.metadata.distribution("tutti").entry_points
assert len(named) > 0 and not [each for each in named if each.group.startswith("vllm")], named
assert not [each for each in importlib.metadata.entry_points(group="vllm.general_plugins") if "tutti" in each.value]
""", without_plugin(tmp_path), options=("-S",))
    assert ended.returncode == 0, ended.stderr


@needs_vllm
def test_tutti_alone_changes_no_vllm(tmp_path):
    ended = python("""
import sys
from vllm.platforms.cpu import CpuPlatform
from vllm.plugins import load_general_plugins
load_general_plugins()
assert CpuPlatform.dist_backend == "gloo", CpuPlatform.dist_backend
assert CpuPlatform.get_device_communicator_cls().endswith("cpu_communicator.CpuCommunicator")
assert not [name for name in sys.modules if name.startswith("tutti")]
""", without_plugin(tmp_path), options=("-S",))
    assert ended.returncode == 0, ended.stderr
