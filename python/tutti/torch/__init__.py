"""The backend "tutti" of torch.distributed: importing this registers it for CPU tensors.

    import torch.distributed as dist
    import tutti.torch

    dist.init_process_group("tutti")        # or "cpu:tutti,cuda:nccl"

The package `tutti-torch` brings the compiled part, a module for each minor version of torch.
"""

import importlib
import importlib.util
import pkgutil
import sys
from typing import Any

try:
    import torch
    import torch.distributed as _dist
except ImportError as problem:
    raise ImportError("tutti.torch is a backend of torch.distributed and needs torch: pip install torch") from problem

__all__ = ["Options", "ProcessGroupTutti"]

_PREFIX = "_tutti_torch_"


def _find() -> Any:
    if not _dist.is_available():
        raise ImportError(f"torch {torch.__version__} was built without torch.distributed; install another build of it")
    minor = "_".join(torch.__version__.split(".")[:2])
    wanted = _PREFIX + minor
    if importlib.util.find_spec(wanted) is not None:
        return importlib.import_module(wanted)
    found = sorted(name.removeprefix(_PREFIX).replace("_", ".") for _, name, _ in pkgutil.iter_modules()
                   if name.startswith(_PREFIX))
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if not found:
        raise ImportError(f"the compiled part of tutti.torch for {python} is not installed: pip install tutti-torch, "
                          "or, in tutti's sources, pip install ./torch --no-build-isolation")
    raise ImportError(f"tutti-torch has no module for torch {torch.__version__} and {python}, only for torch "
                      f"{', '.join(found)}: install one of these versions of torch, a version of tutti-torch that has "
                      f"one for {minor.replace('_', '.')}, or, in tutti's sources, pip install ./torch "
                      "--no-build-isolation, which compiles it for the torch that is installed")


_module = _find()
ProcessGroupTutti = _module.ProcessGroupTutti
Options = ProcessGroupTutti.Options
_dist.Backend.register_backend("tutti", _module.make_backend, extended_api=True, devices=["cpu"])
