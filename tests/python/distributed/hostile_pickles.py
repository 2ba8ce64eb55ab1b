"""Pickles that no pickler writes, each of which weights_only must refuse. By name; the bytes of each."""

import collections
import datetime
import decimal
import fractions
import pickle
import uuid

import numpy as np

from tutti.distributed import tensor_pickles
from tutti.distributed.pickling import Packed

RECONSTRUCT = np.zeros(0).__reduce__()[0]
FROM_BUFFER = np.zeros(1).__reduce_ex__(5)[0]
SCALAR = np.float64(1).__reduce__()[0]
# An array that has no state yet.
EMPTY_ARRAY = f"c{RECONSTRUCT.__module__}\n_reconstruct\ncnumpy\nndarray\n".encode() + b"K\x00\x85C\x01b\x87R"


class Call:
    """Pickled as a call, with a state, and with entries and elements that are put into what it returns."""

    def __init__(self, function, *args, state=None, elements=None, entries=None):
        self.how = (function, args, state, elements and iter(elements), entries and iter(entries))

    def __reduce__(self):
        return self.how


def ops(value):
    """The opcodes that make `value`, to stand among others. They put things to the memo's first places."""
    return pickle.dumps(value, protocol=3)[2:-1]


def body(*parts):
    return b"\x80\x04" + b"".join(parts) + b"."


def of(value):
    packed = Packed(value)
    assert not packed.buffers
    return packed.body


def call(module, name, *args):
    return f"c{module}\n{name}\n".encode() + b"(" + b"".join(args) + b"tR"


def array_of(dtype, data, shape=(1,)):
    return Call(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, shape, dtype, False, data))


OBJECTS = np.array([[1]], object)
STRUCTURE = np.dtype([("a", "O"), ("b", "U5"), ("c", "O", (1, 1))])
I8 = np.dtype("i8")
DAG = b")" + b"q\xc8h\xc8\x86" * 64  # a tuple of two of a tuple of two of ...
LISTS = b"]" + b"q\xc80]h\xc8ah\xc8a" * 64  # and lists


def deep(make, turns, inner=b""):
    """`make` around what lies at place 200, many times."""
    return inner + (b"q\xc8" + b"0" + make) * turns


NESTS = {
    "slices": deep(b"cbuiltins\nslice\nh\xc8\x85R", 3_000, b"N"),
    "slices of three": deep(b"cbuiltins\nslice\nh\xc8NN\x87R", 3_000, b"N"),
    "deques": deep(b"ccollections\ndeque\n)Rh\xc8a", 3_000, b"N"),
    "defaultdicts": deep(b"ccollections\ndefaultdict\n)RK\x00h\xc8s", 3_000, b"N"),
    "deques and lists": deep(b"]h\xc8aq\xc80ccollections\ndeque\n)Rh\xc8a", 3_000, b"N"),
    "deques and tuples": deep(b"h\xc8\x85q\xc80ccollections\ndeque\n)Rh\xc8a", 3_000, b"N"),
    "deques that are dropped": deep(b"ccollections\ndeque\n)Rh\xc8a", 30_000, b"N") + b"Nq\xc80N)R",
    "a ring of deques": b"ccollections\ndeque\n)Rq\xc7q\xc8" + b"0ccollections\ndeque\n)Rh\xc8aq\xc8" * 3_000
    + b"0h\xc7h\xc8a",
    "arrays of objects": deep(
        EMPTY_ARRAY + b"(K\x01K\x01\x85" + ops(np.dtype("O")) + b"\x89]h\xc8atb", 300, b"N"),
    # From the outside in: each is put into another before it has its own.
    "deques that grow": b"ccollections\ndeque\nq\xc90]q\xc8h\xc9)Ra" + b"h\xc9)Rq\xcaah\xca" * 3_000,
    "arrays of views of views": b"C\x08" + bytes(8) + b"q\xc8" + (
        f"c{FROM_BUFFER.__module__}\n_frombuffer\n".encode() + b"(h\xc8" + ops(np.dtype("u1")) + b"K\x08\x85X\x01\x00"
        b"\x00\x00CtR\x98q\xc8") * 3,
    "a view of objects": ops(OBJECTS) + b"\x98",
    "dtypes": ops(np.dtype([("a", "u1")])) + b"".join(
        b"q\xc80" + ops(np.dtype("V1"))[:-len(b"b")].rpartition(b"(")[0]
        + b"(K\x03X\x01\x00\x00\x00|NX\x01\x00\x00\x00a\x85}X\x01\x00\x00\x00ah\xc8K\x00\x86sK\x01K\x01K\x00tb"
        for _ in range(100)),
    "tuples as a key": b"}" + DAG + b"Ns",
    "tuples in a set": b"\x8f(" + DAG + b"\x90",
    "tuples in a frozenset": b"(" + DAG + b"\x91",
}


def dtype_with(text, *state):
    return Call(np.dtype, text, False, True, state=state)


I4 = np.dtype("i4")
BELIEVED = {
    "a field beyond the end": dtype_with("V8", 3, "|", None, ("a",), {"a": (I4, 1 << 20)}, 8, 1, 0),
    "a field before the start": dtype_with("V8", 3, "|", None, ("a",), {"a": (I4, -8)}, 8, 1, 0),
    "another size": dtype_with("V8", 3, "|", (I4, (2,)), None, None, 4096, 1, 0),
    "a size of a simple one": dtype_with("U5", 3, "<", None, None, None, 400, 4, 8),
    "a structure of a number": dtype_with("f8", 3, "|", None, ("a",), {"a": (I4, 0)}, 8, 1, 0),
    "a name without a field": dtype_with("V8", 3, "|", None, ("b",), {"a": (I4, 0)}, 8, 1, 0),
    "a field that is none": dtype_with("V8", 3, "|", None, ("a",), {"a": 7}, 8, 1, 0),
    "an order of its own": dtype_with("f8", 3, "x", None, None, None, -1, -1, 0),
    "a unit of its own": dtype_with("M8", 4, "<", None, None, None, -1, -1, 0, (None, (b"parsec", 1, 1, 1))),
    "no state": dtype_with("f8", 3),
    "objects of bytes": array_of(np.dtype("O"), b"\x41" * 8),
    "too few objects": array_of(np.dtype("O"), [], (1 << 40,)),
    "too few bytes": array_of(np.dtype("f8"), b"1", (1 << 40,)),
    "a shape below nothing": array_of(np.dtype("f8"), b"12345678", (-1, -1)),
    "a scalar of too few bytes": Call(np.float64(1).__reduce__()[0], np.dtype("U1000"), b"1"),
    "an object of bytes": Call(np.float64(1).__reduce__()[0], np.dtype("O"), b"12345678"),
    "a method of a class": Call(fractions.Fraction, "1", state=(None, {"__add__": 1})),
    "an attribute of a value": Call(decimal.Decimal, "1", state={"real": 1}),
    "a large list": Call(list, range(10**12)),
    "a large set": Call(set, range(10**12)),
    "large bytes": Call(bytes, 10**15),
    "a large bytearray": Call(bytearray, 10**15),
    "a large number": Call(fractions.Fraction, "1e999999999"),
    "large memory": Call(np.ndarray, (1 << 40,)),
    "memory that nobody has written": Call(RECONSTRUCT, np.ndarray, (1 << 10,), b"b"),
}


ADDRESSES = {
    "an object's address from numbers": of(Call(FROM_BUFFER, OBJECTS, I8, (1,), "C", entries=[(0, 1)])),
    "an object's address as numbers": of(Call(FROM_BUFFER, OBJECTS, I8, (1,), "C")),
    "of an array of its own": of(Call(FROM_BUFFER, np.zeros(3), I8, (3,), "C")),
    "of a record": of(Call(FROM_BUFFER, np.zeros(1, STRUCTURE)[0], I8, (1,), "C")),
    "elements of an array": of(Call(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, (1,), I8, False, bytes(8)),
                                    entries=[(0, 1)])),
    "a tensor of objects": of(Call(tensor_pickles.tensor, OBJECTS, "int64", (1,), False)),
    "a tensor of quarters": of(Call(tensor_pickles.tensor, bytearray(8), "quint4x2", (8,), False)),
    "a tensor of itself": of(Call(tensor_pickles.same_memory, [], "int64", (1,), False)),
    "a tensor with other dimensions": of(Call(tensor_pickles.tensor, bytearray(8), "int64", (1, 1), False, (0,))),
    "a tensor with steps beyond its memory": of(Call(tensor_pickles.tensor, bytearray(8), "int64", (2,), False, (1,))),
    "a tensor with steps backwards": of(Call(tensor_pickles.tensor, bytearray(16), "int64", (2,), False, (-1,))),
    "a tensor with steps beyond all memory": of(Call(tensor_pickles.tensor, bytearray(16), "int64", (3,), False, (1 << 62,))),
    "a tensor with strange dimensions": of(Call(tensor_pickles.tensor, bytearray(8), "int64", (1,), False, ([],))),
    "a tensor of nothing and large": of(Call(tensor_pickles.tensor, b"", "int64", (1 << 62, 0, 1 << 62), False)),
    "an OrderedDict with methods": of(Call(collections.OrderedDict, state={"items": 1})),
    "an OrderedDict with notes of anything": of(Call(collections.OrderedDict, state={"_metadata": []})),
    "an OrderedDict with more notes": of(Call(collections.OrderedDict, state={
        "_metadata": collections.OrderedDict(), "keys": 1})),
    "bytes that grow": body(b"\x96" + (9).to_bytes(8, "little") + bytes(9) + b"(K\x01e"),
    "a byte more": body(b"\x96" + (9).to_bytes(8, "little") + bytes(9) + b"K\x01a"),
    "a dtype by its class": body(b"cnumpy.dtypes\nStringDType\n)R"),
    "a dtype of NumPy's texts": of(Call(np.dtype, "T")),
    "a dtype of a class": of(Call(np.dtype, np.dtypes.StringDType)),
    "a dtype of a list": of(Call(np.dtype, [("a", "O")])),
    "a dtype from an expression": of(Call(np.dtype, "(2,)i4,i8")),
    "a scalar of a subarray": of(Call(SCALAR, np.dtype((I8, (2,))), bytes(16))),
    "a state that is none": of(Call(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, (1,), np.dtype, False, [1]))),
    "a datetime in year 0": of(Call(datetime.date, b"\x00\x00\x01\x01")),
    "a datetime on day 200": of(Call(datetime.datetime, b"\x07\xe4\x01\xc8" + bytes(6))),
    "a time at hour 99": of(Call(datetime.time, b"\x63" + bytes(5))),
    "a UUID of a list": body(b"cuuid\nUUID\n)\x81}X\x03\x00\x00\x00int]sb"),
    "a UUID by a call": of(Call(uuid.UUID, state={"int": []})),
    "a class with a state": body(b"cuuid\nUUID\n}X\x03\x00\x00\x00intK\x01sb"),
    "metadata that nests": of(np.dtype("f8", metadata={"a": np.zeros(1)})),
    "metadata of lists": of(np.dtype("f8", metadata={"a": {"b": []}})),
    "a text from objects": of(array_of(STRUCTURE, [(None, [], np.zeros((1, 1), object))])),
    "an array from lists": of(array_of(STRUCTURE, [(None, "", [[None]])])),
    "a structure from a list": of(array_of(STRUCTURE, [[None, "", np.zeros((1, 1), object)]])),
    "an old opcode": b"(lI1\na.",
    "an instance": b"(ibuiltins\nobject\n.",
    "an object of a class": b"(cbuiltins\nobject\no.",
    "an extension": b"\x80\x02\x82\x07.",
    "a persistent number": b"\x80\x04K\x01Q.",
    "a call of a call": body(call("builtins", "object"), b")R"),
}


MEGABYTE = b"B" + (1 << 20).to_bytes(4, "little") + b"\x01" * (1 << 20) + b"q\xc8"
BIG_INT = b"\x8b" + (1 << 20).to_bytes(4, "little") + b"\x01" * (1 << 20) + b"q\xc8"
RANGE = call("builtins", "range", ops(10**12))
SLICE = ops(slice(None))
TAKE_ALL = {
    "a list from a range": b"]" + SLICE + RANGE + b"s",
    "a list from a range, among others": b"](" + SLICE + RANGE + b"u",
    "a deque from a range": b"ccollections\ndeque\n" + RANGE + b"\x85R",
    "a counter from a range": b"ccollections\nCounter\n" + RANGE + b"\x85R",
    "a number": ops(Call(fractions.Fraction, "1e999999999")),
    "a number of a number": b"cfractions\nFraction\ncdecimal\nDecimal\nX\x0b\x00\x00\x001e999999999\x85R\x85R",
    "a number of a number from below": b"cfractions\nFraction\ncdecimal\nDecimal\nX\x0c\x00\x00\x001e-999999999\x85R"
    b"\x85R",
    "bytes": b"cbuiltins\nbytes\n" + ops(10**15) + b"\x85R",
    "a bytearray": b"cbuiltins\nbytearray\n" + ops(10**15) + b"\x85R",
    "a bytearray of an announced size": b"\x96" + (1 << 40).to_bytes(8, "little"),
    "a tuple": b"cbuiltins\ntuple\n" + RANGE + b"\x85R",
    "divisions": BIG_INT + b"cbuiltins\nrange\nK\x00h\xc8h\xc8\x87R" * 1000,
    "hashes of a number": BIG_INT + b"}" + b"h\xc8Ns" * 100_000,
    "hashes of tuples": b")" + b"q\xc8h\xc8\x86" * 20 + b"q\xc8}" + b"h\xc8Ns" * 10_000,
    "fractions": ops(2**65000) + b"q\xc80" + b"cfractions\nFraction\nh\xc8h\xc8\x86R" * 10_000,
    "copies in arrays": MEGABYTE + b"0" + (
        ops(Call(RECONSTRUCT, np.ndarray, (0,), b"b")) + b"(K\x01J\x00\x00\x10\x00\x85" + ops(np.dtype("u1"))
        + b"\x89h\xc8tb") * 10,
    "copies in scalars": MEGABYTE + b"0" + (ops(SCALAR) + ops(np.dtype("V1048576")) + b"h\xc8\x86R") * 10,
    "copies of a counter": ops(dict.fromkeys(range(100_000))) + b"q\xc80" + b"ccollections\nCounter\nh\xc8\x85R" * 100,
    "wide structures": ops(array_of(np.dtype([("a", "O"), ("b", "S1000000")]), [(None, b"")] * 1000, (1000,))),
    "an array of an announced shape": ops(array_of(np.dtype("V0"), b"", (1 << 40, 1 << 40))),
    "many extents": ops(array_of(np.dtype("u1"), b"", (1 << 62,) * 100_000)),
    "keys alike": b"}" + b"".join(ops((2**61 - 1) * 2**61 * n) + b"Ns" for n in range(1, 2000)),
    "keys alike in a set": b"\x8f(" + b"".join(ops(((2**61 - 1) * n * 16,)) for n in range(1, 2000)) + b"\x90",
    "keys alike in a frozenset": b"(" + b"".join(ops((2**61 - 1) * 2**61 * n) for n in range(1, 2000)) + b"\x91",
    "a message of a name": b"cnumpy\ndtype\n" + LISTS + b"\x85R",
    "a message of a key": ops(np.dtype("V8"))[:-1].rpartition(b"(")[0] + b"(K\x03X\x01\x00\x00\x00|N" + DAG
    + b"\x85}K\x08K\x01K\x00tb",
    "a message of arguments": b"cfractions\nFraction\n" + LISTS + b"\x85R",
}

NAMES = {name: f"c{name}\n.".replace(" ", "\n").encode() for name in (
    "builtins eval", "builtins getattr", "numpy load", "torch load", "__main__ anything", "ml_dtypes __builtins__",
    "copyreg _reconstructor", "functools partial", "operator attrgetter", "numpy.dtypes __doc__")}
NAMES["a call of the system"] = b"cos\nsystem\n(S'true'\ntR."
NAMES["a path of names"] = b"\x80\x04\x8c\x05numpy\x8c\x10load.__globals__\x93."

STATES = {
    "a class": b"\x80\x04cfractions\nFraction\nN}\x8c\x07__add__K\x01s\x86b.",
    "an array twice": body(EMPTY_ARRAY, *(ops((1, (count,), I8, False, bytes(8 * count))) + b"b" for count in (1, 0))),
    "an object made without a call": body(b"cfractions\nFraction\n)\x81."),
    "an object made with names": body(b"cfractions\nFraction\n)}\x92."),
}

# All of them, as they travel.
ALL = {**{f"nests: {name}": body(pickled) for name, pickled in NESTS.items()},
       **{f"is believed: {name}": of(value) for name, value in BELIEVED.items()},
       **{f"is believed: {name}": pickled for name, pickled in ADDRESSES.items()},
       **{f"takes all: {name}": body(pickled) for name, pickled in TAKE_ALL.items()},
       **{f"names: {name}": pickled for name, pickled in NAMES.items()},
       **{f"has a state: {name}": pickled for name, pickled in STATES.items()}}
