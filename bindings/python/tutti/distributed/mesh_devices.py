"""The device type of a mesh."""

import os
import sys
from typing import Any

from tutti._numbers import without_blanks
from tutti.distributed.backend import Backend


class DeviceTypeError(TypeError, AttributeError):
    """A device type that is no text; torch raises an AttributeError there, from inside."""


def check_device(device_type: Any) -> None:
    """RuntimeError unless tutti, or a registered backend, takes arrays of this device type."""
    if not isinstance(device_type, str):
        raise DeviceTypeError(f"DeviceMesh: the device type is text, such as \"cpu\" or \"cuda\", not {device_type!r}")
    if not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. ",
                           "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.")
    served = sorted({"cuda"}.union(*Backend.backend_capability.values()))
    if device_type.lower() not in served:
        raise RuntimeError(f"DeviceMesh: device type {device_type!r} is unknown; possible are {', '.join(served)}")


def choose_device(device_type: str) -> None:
    """Make the GPU of the local rank torch's current one, unless the program has used CUDA before."""
    torch = sys.modules.get("torch")
    local_rank = without_blanks(os.environ.get("LOCAL_RANK", ""))
    if device_type.lower() != "cuda" or not hasattr(torch, "cuda") or not local_rank.isdecimal():
        return
    cuda: Any = torch.cuda  # type: ignore[union-attr]
    if cuda.is_available() and not cuda.is_initialized():
        # A launcher may have left this process one GPU, which has the number 0 then.
        cuda.set_device(int(local_rank) % cuda.device_count())
