"""Blocks that blocks_test.py does not test, each by its page and some of its words, and why."""

LIBTORCH = "needs LibTorch: tests/python/torch_backend/cpp_test.py runs it"
OTHERS = "needs a program or a package of others"
CHECKED = "integrations/check.sh runs it with that package"
BOTH = "lines of several languages"

NOT_TESTED = {
    ("bindings/torch/README.md", "import torch.distributed as dist"): "needs tutti-torch: tests/python/torch_backend runs the like",
    ("bindings/torch/README.md", "import tutti.torch.nn as tnn"): "needs tutti-torch: tests/python/torch_backend runs the like",
    ("bindings/torch/README.md", "// Trains a small network"): LIBTORCH,
    ("docs/how-to/inference.md", "import torch.distributed as dist"): "needs tutti-torch: tests/python/torch_backend runs the like",
    ("docs/how-to/inference.md", "import deepspeed"): OTHERS,
    ("docs/how-to/inference.md", "import tutti.torch"): "needs tutti-torch: tests/python/torch_backend runs the like",
    ("docs/how-to/mpi.md", "ProcessGroup group = init_process_group("): BOTH,
    ("docs/how-to/mpi4py.md", "from mpi4py import MPI"): "tests/python/examples/mpi4py_page_test.py runs it by a real mpirun",
    ("docs/reference/backends.md", "init_process_group({.backend = "): "calls of both languages, with remarks beside them",
    ("docs/reference/backends.md", "init_process_group()"): "calls of both languages, with remarks beside them",
    ("integrations/lightgbm/README.md", "import lightgbm"): CHECKED,
    ("integrations/ray/README.md", "import numpy as np, ray"): CHECKED,
    ("integrations/ray/README.md", "worker_process_setup_hook"): "one line of a program that needs Ray",
    ("tests/README.md", '#include "base/fnv.hpp"'): "an example of a test of tutti's own, with headers that are not public",
}
