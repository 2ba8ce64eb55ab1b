"""Pickles that no pickler writes: weights_only neither crashes on them nor takes all memory or time."""

import collections
import datetime
import fractions
import pickle
import subprocess
import sys
import types
import uuid

import numpy as np
import pytest

import tutti
from tutti.distributed import exchange, pickling
from tutti.distributed.pickling import Packed, unpack

RECONSTRUCT = np.zeros(0).__reduce__()[0]
FROM_BUFFER = np.zeros(1).__reduce_ex__(5)[0]
SCALAR = np.float64(1).__reduce__()[0]


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
        f"c{RECONSTRUCT.__module__}\n_reconstruct\ncnumpy\nndarray\n".encode() + b"K\x00\x85C\x01b\x87R"
        + b"(K\x01K\x01\x85" + ops(np.dtype("O")) + b"\x89]h\xc8atb", 300, b"N"),
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


@pytest.mark.parametrize("what", NESTS)
def test_what_nests_without_end_is_refused(what):
    with pytest.raises(pickle.UnpicklingError, match="weights_only: the object (calls|nests|puts|makes|has|takes)"):
        unpack(body(NESTS[what]), [], True)


def test_each_container_may_nest_so_deep_that_its_end_overflows_nothing():
    """Those with a trashcan: as deep as it gets. The others: as deep as they may, with those between. All that on a
    small stack."""
    source = """
import threading
from tutti.distributed.pickling import unpack
threading.stack_size(1 << 20)
for make in (b"]h\\xc8a", b"}K\\x00h\\xc8s", b"ccollections\\nOrderedDict\\n)RK\\x00h\\xc8s",
             b"ccollections\\nCounter\\n)RK\\x00h\\xc8s", b"ccollections\\ndefaultdict\\n)RK\\x00h\\xc8s",
             b"ccollections\\ndeque\\n)Rh\\xc8a", b"]h\\xc8aq\\xc80ccollections\\ndeque\\n)Rh\\xc8a"):
    turns = 1_900 if b"deque" in make or b"defaultdict" in make else 20_000
    value = unpack(b"\\x80\\x04N" + (b"q\\xc80" + make) * turns + b".", [], True)
    dropper = threading.Thread(target=value.clear)
    dropper.start()
    dropper.join()
print("well")
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr[-2000:]


ADDRESSES = {
    "an object's address from numbers": of(Call(FROM_BUFFER, OBJECTS, I8, (1,), "C", entries=[(0, 1)])),
    "an object's address as numbers": of(Call(FROM_BUFFER, OBJECTS, I8, (1,), "C")),
    "of an array of its own": of(Call(FROM_BUFFER, np.zeros(3), I8, (3,), "C")),
    "of a record": of(Call(FROM_BUFFER, np.zeros(1, STRUCTURE)[0], I8, (1,), "C")),
    "elements of an array": of(Call(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, (1,), I8, False, bytes(8)),
                                    entries=[(0, 1)])),
    "a tensor of objects": of(Call(pickling._tensor, OBJECTS, "int64", (1,), False)),
    "a tensor of quarters": of(Call(pickling._tensor, bytearray(8), "quint4x2", (8,), False)),
    "a tensor of itself": of(Call(pickling._same_memory, [], "int64", (1,), False)),
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
    "a UUID of a list": of(Call(uuid.UUID, state={"int": []})),
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


@pytest.mark.parametrize("what", ADDRESSES)
def test_nothing_is_believed(what):
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        unpack(ADDRESSES[what], [], True)


def test_extensions_that_were_found_before_are_checked_too():
    import copyreg
    code = 240
    copyreg.add_extension("builtins", "print", code)
    try:
        assert pickle.loads(b"\x80\x02\x82\xf0.") is print  # now it stands in pickle's cache
        with pytest.raises(pickle.UnpicklingError, match="print, which is not plain data"):
            unpack(b"\x80\x02\x82\xf0.", [], True)
    finally:
        copyreg.remove_extension("builtins", "print", code)
    with pytest.raises(pickle.UnpicklingError, match="not registered"):
        unpack(b"\x80\x02\x82\xf0.", [], True)


def test_an_array_is_a_copy_of_bytes_that_others_hold():
    data = b"x" * 2000
    key, array = unpack(of([data, array_of(np.dtype("u1"), data, (2000,))]), [], True)
    array[:] = 0
    assert key == data


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


@pytest.mark.parametrize("what", TAKE_ALL)
def test_nothing_takes_all_memory_or_time(what):
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        unpack(body(TAKE_ALL[what]), [], True)


def test_tensors_are_not_copied_without_end():
    pytest.importorskip("torch.distributed", reason="torch is not installed")
    one = b"ctutti.distributed.pickling\n_tensor\n(h\xc8X\x05\x00\x00\x00uint8J\x00\x00\x10\x00\x85\x89tR"
    assert unpack(body(MEGABYTE + b"0" + one), [], True).sum() == 1 << 20
    with pytest.raises(pickle.UnpicklingError, match="makes much more of its parts than was sent"):
        unpack(body(MEGABYTE + b"0" + one * 10), [], True)


def test_memory_under_a_tensor_does_not_move():
    pytest.importorskip("torch.distributed", reason="torch is not installed")
    octets = bytearray(8)
    tensor = pickling._tensor(octets, "int64", (1,), False)
    with pytest.raises(BufferError):
        octets.extend(bytes(1 << 20))
    octets[0] = 5
    assert tensor.tolist() == [5] and str(tensor.dtype) == "torch.int64"


def test_what_is_refused_tells_no_more_than_a_text():
    """A message that shows what came would have to print it; so would the traceback of its cause."""
    with pytest.raises(pickle.UnpicklingError) as caught:
        unpack(body(b"}" + LISTS + b"Ns"), [], True)  # unhashable
    assert len(str(caught.value)) < 400
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


@pytest.mark.parametrize("value", [
    {(n, "a" * n): n for n in range(1000)}, {1 << n for n in range(200)} | {-1, -2, 1.5, None, (1, (2, (3,)))},
    {float(n) * 2.0**60: n for n in range(1000)}, [fractions.Fraction(2**300, 3**200)] * 3,
    [collections.Counter({n: n for n in range(5000)}) for _ in range(20)],
    collections.defaultdict(dict, {n: collections.defaultdict(list, {1: [n]}) for n in range(3000)}),
    collections.deque(collections.deque([n]) for n in range(3000)),
    [(np.zeros(300, "u1"), np.float32(n)) for n in range(500)], [tuple(range(1000))] * 1000,
    [datetime.datetime(1, 1, 1), datetime.time(23, 59, 59, 999999, fold=1), datetime.date.max],
    {slice(1, 2, 3).indices(5): range(5, 1, -2)},
], ids=lambda value: type(value).__name__)
def test_no_limit_is_met_by_plain_data(value):
    got = unpack(Packed(value).body, [bytearray(each) for each in Packed(value).buffers], True)
    assert got == value if isinstance(value, set) else pickle.dumps(got, 5) == pickle.dumps(value, 5)


def test_cycles_come_back():
    ring = collections.deque()
    ring.append([ring])
    array = np.empty(2, object)
    array[:] = [array, {"a": array}]
    tree = collections.defaultdict(dict)
    for n in range(500):
        tree[n] = collections.defaultdict(dict, parent=tree)
    got = unpack(Packed([ring, array, tree]).body, [], True)
    assert got[0][0][0] is got[0] and got[1][0] is got[1] and got[1][1]["a"] is got[1] and got[2][7]["parent"] is got[2]
    got[0].clear()
    got[1][:] = None  # no collector of garbage knows arrays


def test_ragged_arrays_come_back():
    ragged = np.empty(3, object)
    inner = np.empty(2, object)
    inner[:] = [np.arange(3), {"a": np.zeros(1, STRUCTURE)}]
    ragged[:] = [inner, None, [inner]]
    got = unpack(Packed(ragged).body, [], True)
    assert got[0][0].tolist() == [0, 1, 2] and got[2][0] is got[0] and got[0][1]["a"].dtype == STRUCTURE


def test_buffers_that_cannot_be_together_are_refused():
    sizes = b"".join((1 << 45).to_bytes(8, "little") for _ in range(3))
    assert pickling.read_sizes(sizes, 2) == [1 << 45] * 2
    with pytest.raises(tutti.Error, match="announced buffers of"):
        pickling.read_sizes(sizes, 3)


def test_what_is_only_announced_takes_no_memory():
    source = """
import resource, sys
from tutti.distributed.pickling import room
assert "numpy" not in sys.modules
there = room(1 << 30)
there[0:3] = b"abc"
assert len(there) == 1 << 30 and bytes(there[0:4]) == b"abc\\0"
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 19)
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_card_that_cannot_be_is_refused(monkeypatch):
    class Low:
        def isend(self, *_, **__):
            return self

        def irecv(self, size, *_, **__):
            size[:] = (1 << 62).to_bytes(8, "little")
            return self

        def wait(self, *_):
            return True

    parent = types.SimpleNamespace(_low=Low(), _index={0: 0, 1: 1}, _own=0)
    monkeypatch.setattr(exchange._tutti, "init_process_group", lambda exchange, **_: exchange("cards", b"mine"))
    with pytest.raises(tutti.Error, match="rank 1 of the parent announced a card of"):
        exchange.make_among(parent, [0, 1], "pair", None)
