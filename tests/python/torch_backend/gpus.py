"""GPUs whose memory is the host's: tensors of them for a torch without CUDA, and the driver that tutti loads for them."""

import ctypes
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig

import torch

ROOT = pathlib.Path(__file__).parents[3]


def build(folder):
    """Compiles both libraries; the environment in which ranks must run."""
    from torch.utils import cpp_extension  # takes long
    driver, tensors = folder / "libhost_cuda_driver.so", folder / "libhost_gpus.so"
    compiler, options = os.environ.get("CXX", "c++").split(), ["-fPIC", "-std=c++20"]
    torchs = [f"-isystem{path}" for path in [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]]
    folders = cpp_extension.library_paths()
    libraries = [*(f"-L{path}" for path in folders), *(f"-Wl,-rpath,{path}" for path in folders), "-ltorch_cpu", "-lc10"]
    cache, built = ["ccache"] if shutil.which("ccache") else [], str(folder / "host_gpus.o")
    here = str(pathlib.Path(__file__).parent / "gpu/host_gpus.cpp")
    with subprocess.Popen([*cache, *compiler, "-c", *options, "-O0", *torchs, "-o", built, here]) as compiling:
        subprocess.run([*compiler, "-shared", *options, "-ffp-contract=off", "-o", str(driver), "-I", str(ROOT / "src"), "-I",
                        str(ROOT / "tests"), *[str(ROOT / f"tests/support/mock_{name}.cpp") for name in ("cuda", "cuda_driver", "gpu")]], check=True, timeout=120)
        assert compiling.wait(300) == 0
    subprocess.run([*compiler, "-shared", "-o", str(tensors), built, *libraries], check=True, timeout=120)
    return {"TUTTI_CUDA_LIBRARY": str(driver), "TUTTI_TEST_GPUS": "2", "TUTTI_TEST_GPU_TENSORS": str(tensors)}


def load():
    """In a rank: from now on there are GPUs."""
    torch.ops.load_library(os.environ["TUTTI_TEST_GPU_TENSORS"])
    torch.cuda._lazy_init = lambda: None  # it would look for CUDA before it makes a tensor
    # Python's part of torch.cuda knows no GPU.
    torch.cuda.is_available, torch.cuda.device_count = lambda: True, lambda: 2
    torch.cuda.get_device_capability = lambda device=None: (9, 0)


def on_gpu(tensor, gpu=0):
    return torch.ops.host_gpus.on_gpu(tensor, gpu)


def on_host(tensor):
    return torch.ops.host_gpus.on_host(tensor)


def set_stream(stream, gpu=0):
    """Makes it the current one of this thread; 0: the default one."""
    torch.ops.host_gpus.set_stream(gpu, stream)


def number(stream, gpu=0):
    """Its handle."""
    return 1000 * (gpu + 1) + stream if stream else 0


def take_log():
    """What was done with streams and events since the last call; events by the order in which they come."""
    names = {}
    text = re.sub(r"event \d+", lambda found: names.setdefault(found[0], f"event {len(names) + 1}"),
                  torch.ops.host_gpus.take_log())
    return text.splitlines()


def stream_of_the_driver():
    """The stream of the last call that tutti made with one of the caller's."""
    stream = ctypes.c_void_p()
    ctypes.CDLL(os.environ["TUTTI_CUDA_LIBRARY"]).tuttiTestLastStream(ctypes.byref(stream))
    return stream.value or 0


def shared_memories():
    """How many memories of GPUs this process has made for other ranks, too."""
    count = ctypes.c_int()
    ctypes.CDLL(os.environ["TUTTI_CUDA_LIBRARY"]).tuttiTestSharedMemories(ctypes.byref(count))
    return count.value
