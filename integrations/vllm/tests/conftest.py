"""Ranks of the tests, started by tuttirun, with a vLLM that is made of the names that the plug-in touches."""

import os
import pathlib
import socket
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
LIMIT = 120  # seconds for a job; importing torch takes most of it

FILES = {
    "__init__.py": "__version__ = '0.32.0'\n",
    "platforms/__init__.py": """
class Platform:
    device = "cpu"

    def is_cpu(self):
        return self.device == "cpu"

current_platform = Platform()
""",
    "platforms/cpu.py": """
class CpuPlatform:
    dist_backend = "gloo"

    @classmethod
    def get_device_communicator_cls(cls):
        return "vllm.distributed.device_communicators.cpu_communicator.CpuCommunicator"
""",
    "distributed/__init__.py": "",
    "distributed/device_communicators/__init__.py": "",
    "distributed/device_communicators/cpu_communicator.py": """
import torch.distributed as dist

class CpuCommunicator:
    def __init__(self, cpu_group, device=None, device_group=None, unique_name="", use_all2all=False):
        self.cpu_group, self.device_group, self.unique_name = cpu_group, device_group, unique_name
        self.rank_in_group, self.world_size = dist.get_rank(cpu_group), dist.get_world_size(cpu_group)
        self.ranks = dist.get_process_group_ranks(cpu_group)
        self.supports_tensor_dict = False
        self.dist_module = "shared memory" if self._all_group_ranks_share_shm_group_name() else dist

    def _all_group_ranks_share_shm_group_name(self):
        return True
""",
}


@pytest.fixture(scope="session")
def fake_vllm(tmp_path_factory):
    """A folder with a package `vllm` that has these names alone."""
    folder = tmp_path_factory.mktemp("fake")
    for name, text in FILES.items():
        file = folder / "vllm" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def environment(*folders, **variables):
    """That of a process that finds these folders before what is installed."""
    return dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, folders)), **variables)


def job(size, case, *folders, limit=LIMIT):
    """`case` of cases.py on so many ranks: the ended process, with its output."""
    return subprocess.run(
        [sys.executable, "-m", "tutti", "run", "--nproc-per-node", str(size), HERE / "cases.py", case],
        env=environment(*folders), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit)


def alone(size, folder, *case):
    """The same without a launcher, which would end all ranks when one has died: the outputs of all."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = [subprocess.Popen(
        [sys.executable, HERE / "cases.py", *case], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=environment(folder, RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)))
        for rank in range(size)]
    try:
        return [each.communicate(timeout=LIMIT)[0] for each in started]
    finally:
        for each in started:
            each.kill()


def python(program, *folders, options=(), **variables):
    """A process that runs this text."""
    return subprocess.run([sys.executable, *options, "-c", program], env=environment(*folders, **variables), text=True,
                          capture_output=True, timeout=LIMIT)


def has_vllm():
    """True if vLLM is installed."""
    import importlib.util
    return importlib.util.find_spec("vllm") is not None


needs_vllm = pytest.mark.skipif(not has_vllm(), reason="vLLM is not installed")
