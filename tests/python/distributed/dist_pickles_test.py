"""What weights_only reads, and what a hostile peer's pickle cannot do to it."""

import collections
import datetime
import decimal
import fractions
import pickle
import sys
import uuid

import numpy as np
import pytest

from hostile_pickles import EMPTY_ARRAY, array_of, body, dtype_with, ops
from tutti.distributed import add_safe_globals, clear_safe_globals
from tutti.distributed.pickling import Packed, unpack


def read(value):
    packed = Packed(value)
    return unpack(packed.body, [bytearray(each) for each in packed.buffers], True)


DTYPES = [
    np.dtype(each) for each in (
        "f8", ">i4", "U5", ">U5", "S3", "V4", "M8[ns]", "m8[7D]", "M8", ">M8[us]", "O", "?", "c16", ("i4", (2, 3)),
        [], [("a", "i4"), ("b", "O")], [(("title", "a"), "i4"), ("b", "f8")],
        [("a", [("x", ">f4"), ("y", "M8[s]")], (2,)), ("b", "U3")],
        {"names": ["a", "b"], "formats": ["i4", "f8"], "offsets": [16, 4], "itemsize": 40},
        {"names": ["all", "half"], "formats": ["i4", "i2"], "offsets": [0, 2]})
] + [np.dtype([("a", "i1"), ("b", "f8"), ("c", np.dtype([("x", "i1"), ("y", "i4")], align=True))], align=True)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_come_back(dtype):
    got = read(dtype)
    assert got == dtype and got.isalignedstruct == dtype.isalignedstruct and got.hasobject == dtype.hasobject
    assert got.fields == dtype.fields and got.itemsize == dtype.itemsize and got.byteorder == dtype.byteorder
    twice = read([dtype, {"again": dtype}])  # by the memo
    assert twice[0] == dtype == twice[1]["again"]
    for shape in ((), (0,), (3,), (2, 2)):
        for array in (np.zeros(shape, dtype), np.asfortranarray(np.zeros(shape, dtype))):
            got = read(array)
            usual = pickle.loads(pickle.dumps(array, protocol=5))  # which turns some to the machine's byte order
            assert got.dtype == usual.dtype and got.shape == array.shape and (got == array).all()
    if dtype.kind != "O" and dtype.subdtype is None:
        one = np.zeros(1, dtype)[0]
        assert read(one).tobytes() == one.tobytes()
        assert read(one).dtype == one.dtype


def test_metadata_of_dtypes_comes_back():
    for name in ("f8", "M8[s]"):
        got = read(np.dtype(name, metadata={"unit": "m", "enum": {"a": 1}, "vlen": str}))
        assert dict(got.metadata) == {"unit": "m", "enum": {"a": 1}, "vlen": str}


def test_narrow_floats_come_back():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed")
    for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn):
        array = np.arange(4).astype(kind)
        got = read(array)
        assert got.dtype == array.dtype and (got == array).all() and read(array[1]) == array[1]


@pytest.mark.parametrize("value", [
    uuid.UUID(int=5), datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc), datetime.timedelta(3), 1 + 2j,
    decimal.Decimal("1.5"), fractions.Fraction(-3, 4), range(10**30), slice(1, None), bytearray(b"abc"), {1, 2},
    frozenset("ab"), collections.OrderedDict(a=1), collections.deque([1], 5), collections.Counter("aab"),
    collections.defaultdict(list, a=[1]), b"", "x", object, [np.float32(2.5), np.str_("a")]])
def test_plain_values_come_back(value):
    assert read(value) == value


def test_objects_in_arrays_come_back():
    array = np.array([1, "a", None, [2]], object)
    assert read(array).tolist() == array.tolist()
    record = np.zeros(2, [("a", "O"), ("b", "i4")])
    assert read(record).tolist() == record.tolist() and read(record[0]) == record[0]


class Built:
    """A class that a user may add."""


def test_added_classes_keep_their_state():
    value = Built()
    value.number = 7
    add_safe_globals([Built])
    try:
        assert read(value).number == 7
    finally:
        clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        read(value)


def test_a_peer_does_not_choose_the_flags_of_a_dtype():
    hidden = dtype_with("V8", 3, "|", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 0)
    assert read(hidden).hasobject
    assert read([hidden, hidden])[1].hasobject
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        read(array_of(hidden, b"\x41" * 8))


def test_tuples_do_not_nest_without_end():
    for wrap in (b"\x85", b"K\x01\x86", b"K\x01K\x01\x87"):
        with pytest.raises(pickle.UnpicklingError, match="nests more than"):
            key = b")" + wrap * 1_000_000 if wrap == b"\x85" else b")" + wrap * 10_000
            unpack(b"\x80\x04}" + key + b"K\x01s.", [], True)
    deep = ()
    for _ in range(200):
        deep = (deep, frozenset([deep]))[:1]
    assert read({deep: 1}) == {deep: 1}


def test_an_array_gets_its_state_once():
    some, none = [ops((1, (n,), np.dtype("i8"), False, b"12345678" * n)) + b"b" for n in (1, 0)]
    assert unpack(body(EMPTY_ARRAY, none, some), [], True).tolist() == [int.from_bytes(b"12345678", sys.byteorder)]
    with pytest.raises(pickle.UnpicklingError, match="twice"):
        unpack(body(EMPTY_ARRAY, some, none), [], True)


@pytest.mark.parametrize("octets", [
    b"", b".", b"\x80", b"\xff.", b"h\x05.", b"(((((", b"b.", b"R.", b"\x80\x05\x96" + (1 << 40).to_bytes(8, "little"),
    b"\x80\x05\x97.", b"\x80\x04\x93."])
def test_what_is_no_pickle_is_told(octets):
    with pytest.raises(pickle.UnpicklingError):
        unpack(octets, [], True)
