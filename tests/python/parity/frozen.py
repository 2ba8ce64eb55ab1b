"""What came of a call, in a form that can be compared and pickled without torch."""

import ctypes
import datetime
import warnings

# The public classes of torch.distributed's errors; ours have the same names.
ERRORS = ("DistError", "DistBackendError", "DistNetworkError", "DistStoreError", "QueueEmptyError")
HEARD = (UserWarning, FutureWarning, DeprecationWarning)


def octets(tensor):
    """The elements' bytes in row-major order."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""


def of_tensor(value):
    """Kind, dtype, shape, bytes; then strides and flags, which the values that expected.py computes do not have."""
    import torch
    if value.layout is not torch.strided:
        return ("sparse", str(value.layout), tuple(value.shape), frozen(value.to_dense()))
    flags = (type(value).__name__, value.requires_grad, value.is_leaf, value.is_conj(), value.is_neg())
    return ("tensor", str(value.dtype), tuple(value.shape), octets(value), tuple(value.stride()), flags)


def frozen(value):
    import numpy
    import torch
    if isinstance(value, torch.Tensor):
        return of_tensor(value)
    if isinstance(value, numpy.ndarray):
        return ("array", str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, (list, tuple)):
        return [frozen(each) for each in value]
    if isinstance(value, dict):
        return {key: frozen(each) for key, each in value.items()}
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, datetime.timedelta)):
        return value
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return f"<{type(value).__name__}>"


def classes(problem, dist):
    """Names of the classes of an error, the closest first. Of torch's those that programs can name; ours have torch's
    names beside their own."""
    kinds = type(problem).__mro__
    named = [name for name in ERRORS if isinstance(problem, getattr(dist, name))]
    if dist.__name__.startswith("torch"):
        return [kind.__name__ for kind in kinds if kind.__module__ == "builtins" or kind.__name__ in named]
    return [kind.__name__ for kind in kinds] + named


def outcome(call, dist):
    """("value", v, warnings) or ("error", names of its classes, text, warnings)."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = ("value", frozen(call()))
        except Exception as problem:
            result = ("error", classes(problem, dist), str(problem))
    return (*result, sorted(f"{each.category.__name__}: {each.message}" for each in heard
                            if issubclass(each.category, HEARD)))
