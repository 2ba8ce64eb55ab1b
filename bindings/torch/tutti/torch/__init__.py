"""The backend "tutti" of torch.distributed: importing this registers it for tensors of the CPU and of NVIDIA GPUs.

    import torch.distributed as dist
    import tutti.torch

    dist.init_process_group("tutti")        # or "cpu:tutti,cuda:nccl"
    dist.init_process_group("tutti", "mpi://")      # started by mpirun: on MPI

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

if not _dist.is_available():
    raise ImportError(f"torch {torch.__version__} was built without torch.distributed; install another build of it")

from . import _all_reduce, _by_mpi, _rms_norm

__all__ = ["ProcessGroupTutti", "all_reduce_", "all_reduce_add_rms_norm_"]  # and Options, of the compiled part

all_reduce_ = _all_reduce.all_reduce_
all_reduce_add_rms_norm_ = _rms_norm.all_reduce_add_rms_norm_
_PREFIX = "_tutti_torch_"


def _wanted() -> str:
    """The compiled part for this torch."""
    return _PREFIX + "_".join(torch.__version__.split(".")[:2])


def _why_not() -> str:
    """The reason why the compiled part for this torch is missing, and what to do."""
    found = sorted(name.removeprefix(_PREFIX).replace("_", ".") for _, name, _ in pkgutil.iter_modules()
                   if name.startswith(_PREFIX))
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if not found:
        return (f"the compiled part of tutti.torch for {python} is not installed: pip install tutti-torch, or, in "
                "tutti's sources, pip install ./bindings/torch --no-build-isolation")
    return (f"tutti-torch has no module for torch {torch.__version__} and {python}, only for torch "
            f"{', '.join(found)}: install one of these versions of torch, a version of tutti-torch that has one for "
            f"{'.'.join(torch.__version__.split('.')[:2])}, or, in tutti's sources, pip install ./bindings/torch "
            "--no-build-isolation, which compiles it for the torch that is installed")


_form: Any
if importlib.util.find_spec(_wanted()) is not None:
    try:
        _form = importlib.import_module(_wanted())
    except ImportError as problem:
        raise ImportError(f"the compiled part of tutti.torch for torch {torch.__version__} does not load; it may have been "
                          "built for another build of torch: install it anew, from tutti's sources by pip install "
                          f"./bindings/torch --no-build-isolation. {problem}", name=_wanted(), path=problem.path) from problem
    Options = _form.ProcessGroupTutti.Options
    _devices = ["cpu", "cuda"]
else:
    from . import _python_fallback as _form
    _form.begin(_why_not())
    _all_reduce.define_in_python()
    _rms_norm.define_in_python()
    _devices = ["cpu"]
ProcessGroupTutti = _form.ProcessGroupTutti


def _make_backend(given: Any, options: Any) -> Any:
    """Torch calls it for each group."""
    return _form.make_backend(given, options, _by_mpi.backend_of(given.store))


_dist.Backend.register_backend("tutti", _make_backend, extended_api=True, devices=_devices)
_by_mpi.register()
