"""What came of a call, in a form that can be compared and pickled without torch; and of the steps of a program: functions
that are called one after the other."""

import ctypes
import datetime
import inspect
import warnings

import numpy

from arrays import HAS_TORCH, torch
from differences import needs_torch

# The public classes of torch.distributed's errors; ours have the same names.
ERRORS = ("DistError", "DistBackendError", "DistNetworkError", "DistStoreError", "QueueEmptyError")
HEARD = (UserWarning, FutureWarning, DeprecationWarning)


def octets(tensor):
    """The elements' bytes in row-major order."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return ctypes.string_at(plain.data_ptr(), plain.numel() * plain.element_size()) if plain.numel() else b""


def of_tensor(value):
    """Kind, dtype, shape, bytes; then strides and flags, which the values that expected.py computes do not have."""
    if value.layout is not torch.strided:
        return ("sparse", str(value.layout), tuple(value.shape), frozen(value.to_dense()))
    flags = (type(value).__name__, value.requires_grad, value.is_leaf, value.is_conj(), value.is_neg())
    return ("tensor", str(value.dtype), tuple(value.shape), octets(value), tuple(value.stride()), flags)


def of_array(value):
    """As of_tensor: what an array is not, a plain tensor is not either."""
    made_empty = 0 in value.shape and not any(value.strides)  # NumPy does not count there
    strides = numpy.empty([max(1, each) for each in value.shape]).strides if made_empty else value.strides
    strides = tuple(stride // (8 if made_empty else value.itemsize) for stride in strides)
    return ("tensor", f"torch.{value.dtype}", value.shape, value.tobytes(), strides,
            ("Tensor", False, True, False, False))


def frozen(value):
    if isinstance(value, torch.Tensor):
        return of_tensor(value) if HAS_TORCH else of_array(value)
    if isinstance(value, numpy.ndarray):
        return ("array", str(value.dtype), value.shape, value.tobytes())
    if isinstance(value, (list, tuple)):
        return [frozen(each) for each in value]
    if isinstance(value, dict):
        return {key: frozen(each) for key, each in value.items()}
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, datetime.timedelta)):
        return value
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


class Steps:
    """`step(name, call, *tensors)` calls, keeps what comes back and what is in these tensors then, and gives what came
    back; None where it raised. `known` is what must come where torch cannot do it, or does it wrongly; `exactly` is the
    same with strides and flags."""

    def __init__(self, place):
        self.place = place
        self.results = {}
        self.known, self.exactly = {}, {}
        self.program = None

    def run(self, program):
        """Calls it with what its parameters name: the place, these steps, the package and the number of ranks."""
        self.program = f"{program.__module__.removeprefix('programs.')}/{program.__name__}"
        if not needs_torch(f"{self.program}/"):
            given = {"at": self.place, "step": self, "d": self.place.dist, "n": self.place.size}
            program(*map(given.get, inspect.signature(program).parameters))

    def cell(self, name, call):
        assert name not in self.results, f"two cells are called {name}"
        if needs_torch(name):
            return
        self.results[name] = outcome(call, self.place.dist)

    def __call__(self, name, call, *tensors, **known):
        back = None

        def whole():
            nonlocal back
            back = call()
            return (back, *tensors) if tensors else back

        cell = f"{self.program}/{name}"
        self.cell(cell, whole)
        if "known" in known:
            self.known[cell] = frozen(known["known"])
        if "exactly" in known:
            self.exactly[cell] = frozen(known["exactly"])
        return back
