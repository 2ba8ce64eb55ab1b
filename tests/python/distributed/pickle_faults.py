"""Checks of weights_only, each with a way to take it out: what a fuzzer must see."""

import pickle

import numpy as np

from tutti.distributed import limits, plain, plain_arrays, plain_dtypes, safe

Reader = safe._SafeUnpickler


def nothing(*_):
    """In the place of a check."""


def method(owner, name, replacement):
    return lambda: setattr(owner, name, replacement)


def opcode(code, function):
    return lambda: Reader.dispatch.__setitem__(code[0], function)


def usual(code):
    """pickle's own way with an opcode."""
    return opcode(code, pickle._Unpickler.dispatch[code[0]])


def call(key, function=None):
    """That function with any arguments."""
    return lambda: safe._CALLS.__setitem__(key, function or (lambda limits, made, args: made(*args)))


def any_call(self):
    args = self.stack.pop()
    self.stack[-1] = self.stack[-1](*args)


def any_name(self, module, name):
    return pickle._Unpickler.find_class(self, module, name)


def believed_state(limits, kind, state):
    kind.__setstate__(state)
    return kind


# Where this NumPy has them.
ARRAYS = np.zeros(0).__reduce__()[0].__module__.rpartition(".")[0]

FAULTS = {
    "which names are found": method(Reader, "find_class", any_name),
    "which functions are called": opcode(pickle.REDUCE, any_call),
    "which opcodes are read": lambda: Reader.dispatch.update(
        {code: load for code, load in pickle._Unpickler.dispatch.items() if code not in Reader.dispatch}),
    "what gets a state": usual(pickle.BUILD),
    "what is made without a call": usual(pickle.NEWOBJ),
    "what is made with names": usual(pickle.NEWOBJ_EX),
    "what gets elements": method(Reader, "_target", nothing),
    "what a view is made of": method(limits.Limits, "is_source", lambda self, buffer: True),
    "the size of bytes": usual(pickle.BYTEARRAY8),
    "copies": method(limits.Limits, "copy", nothing),
    "room": method(limits.Limits, "pad", nothing),
    "steps": method(limits.Limits, "work", nothing),
    "how deep tuples are": method(limits.Limits, "made", nothing),
    "keys with one hash": method(limits.Limits, "keys", nothing),
    "how deep containers are": method(limits.Limits, "check_ends", nothing),
    "what makes a dtype": call(("numpy", "dtype")),
    "the states of dtypes": method(plain_dtypes, "dtype_of_state", believed_state),
    "how deep dtypes are": method(plain_dtypes, "parts_of", lambda dtype: 1),
    "what makes an array": call((ARRAYS + ".multiarray", "_reconstruct")),
    "what makes a scalar": call((ARRAYS + ".multiarray", "scalar")),
    "what an array lies in": call((ARRAYS + ".numeric", "_frombuffer")),
    "the states of arrays": method(plain_arrays, "array_state", lambda limits, array, state: state),
    "the objects of arrays": method(plain_arrays, "_take_objects", nothing),
    "shapes": method(plain_arrays, "_is_shape", lambda shape: True),
    "slices": call(("builtins", "slice")),
    "deques": call(("collections", "deque")),
    "counters": call(("collections", "Counter")),
    "moments": call(("datetime", "date")),
    "fractions": call(("fractions", "Fraction")),
    "states of UUIDs": method(plain, "check_uuid_state", nothing),
    "states of OrderedDicts": method(plain, "check_module_state", nothing),
    "tensors": method(plain_arrays, "_describes", lambda args: True),
}
