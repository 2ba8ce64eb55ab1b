"""Importing this gives torch.distributed the backend "tutti" for CPU tensors."""

import torch.distributed as dist

from _tutti_torch import make_backend

dist.Backend.register_backend("tutti", make_backend, devices=["cpu"])
