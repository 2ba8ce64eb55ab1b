"""Pickles that no pickler writes: weights_only neither crashes on them nor takes all memory or time."""

import collections
import datetime
import fractions
import pickle
import types

import numpy as np
import pytest

import ranks
import stacks
import tutti

from hostile_pickles import ALL, LISTS, MEGABYTE, STRUCTURE, Call, array_of, body, of
from tutti.distributed import exchange, pickling, tensor_pickles
from tutti.distributed.pickling import Packed, unpack


@pytest.mark.parametrize("what", ALL)
def test_it_is_refused(what):
    # torch compares steps with the memory. Without it no tensor is made at all.
    without_torch = what.endswith("steps beyond its memory") and not ranks.has_torch()
    with pytest.raises(ImportError if without_torch else pickle.UnpicklingError, match="torch" if without_torch else "weights_only"):
        unpack(ALL[what], [], True)
    assert fractions.Fraction(1) + 1 == 2  # which attacks give a state


def test_each_container_may_nest_so_deep_that_its_end_overflows_nothing():
    """Those with a trashcan: as deep as it gets. The others: as deep as they may, with those between. All that on a
    small stack."""
    source = """
import threading
from tutti.distributed.pickling import unpack
threading.stack_size(1 << 20)
for make in (b"]h\\xc8a", b"}K\\x00h\\xc8s", b"ccollections\\nOrderedDict\\n)RK\\x00h\\xc8s",
             b"ccollections\\nCounter\\n)RK\\x00h\\xc8s", b"ccollections\\ndefaultdict\\n)RK\\x00h\\xc8s",
             b"ccollections\\nOrderedDict\\n)R}X\\x09\\x00\\x00\\x00_metadatah\\xc8sb",
             b"ccollections\\ndeque\\n)Rh\\xc8a", b"]h\\xc8aq\\xc80ccollections\\ndeque\\n)Rh\\xc8a"):
    turns = 1_900 if b"deque" in make or b"defaultdict" in make else 20_000
    inner = b"ccollections\\nOrderedDict\\n)R" if b"_metadata" in make else b"N"
    value = unpack(b"\\x80\\x04" + inner + (b"q\\xc80" + make) * turns + b".", [], True)
    if b"_metadata" in make:
        value = [value]
    dropper = threading.Thread(target=value.clear)
    dropper.start()
    dropper.join()
print("well")
"""
    assert stacks.said("-c", source) == "well\n"


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


@pytest.mark.torch
def test_tensors_are_not_copied_without_end():
    one = b"ctutti.distributed.tensor_pickles\ntensor\n(h\xc8X\x05\x00\x00\x00uint8J\x00\x00\x10\x00\x85\x89tR"
    assert unpack(body(MEGABYTE + b"0" + one), [], True).sum() == 1 << 20
    with pytest.raises(pickle.UnpicklingError, match="makes much more of its parts than was sent"):
        unpack(body(MEGABYTE + b"0" + one * 10), [], True)


@pytest.mark.torch
def test_what_no_tensor_is_made_of():
    import torch
    rebuild = torch._utils._rebuild_parameter
    one, none = torch.ones(1), collections.OrderedDict()
    assert unpack(of(Call(rebuild, one, True, none)), [], True).requires_grad
    for wrong in (Call(rebuild, [], True, none), Call(rebuild, one, 1, none), Call(rebuild, one, True, {1: 2}),
                  Call(rebuild, one, True, collections.OrderedDict(a=1)), Call(rebuild, one.int(), True, none),
                  Call(tensor_pickles.tensor, b"", "int64", (1 << 40,), False),
                  Call(tensor_pickles.tensor, bytearray(8), "int64", (2,), False),
                  Call(tensor_pickles.tensor, bytearray(8), "int64", (1,), True),
                  Call(tensor_pickles.same_memory, one, "int64", (1,), False),
                  Call(torch._utils._rebuild_tensor_v2, one, 0, (1,), (1,), False, none),
                  Call(torch.storage._load_from_bytes, b"")):
        with pytest.raises(pickle.UnpicklingError, match="weights_only"):
            unpack(of(wrong), [], True)


@pytest.mark.torch
def test_memory_under_a_tensor_does_not_move():
    octets = bytearray(8)
    tensor = tensor_pickles.tensor(octets, "int64", (1,), False)
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
import sys
from tutti.distributed.pickling import room
assert "numpy" not in sys.modules
there = room(1 << 30)
there[0:3] = b"abc"
assert len(there) == 1 << 30 and bytes(there[0:4]) == b"abc\\0"
# Not ru_maxrss, which begins with the memory of the process that has started this one.
most = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(int(most) < 1 << 19)
"""
    assert stacks.said("-c", source) == "True\n"


def test_a_card_that_cannot_be_is_refused(monkeypatch):
    class Low:
        backend = "native"

        def isend(self, *_, **__):
            return self

        def irecv(self, size, *_, **__):
            size[:] = (1 << 62).to_bytes(8, "little")
            return self

        def wait(self, *_):
            return True

    parent = types.SimpleNamespace(_low=Low(), _index={0: 0, 1: 1}, _own=0)
    monkeypatch.setattr(exchange._tutti, "init_process_group", lambda exchange, **_: exchange("worker_addresses", b"mine"))
    with pytest.raises(tutti.Error, match="rank 1 of the parent announced an address of"):
        exchange.make_among(parent, [0, 1], "pair", None)
