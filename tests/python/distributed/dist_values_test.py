"""What needs no ranks: operations, names of engines, pickles, futures."""

import copy
import datetime
import pickle
import sys
import threading
import types
from unittest import mock

import numpy as np
import pytest

import stacks
import tutti.distributed as dist
from tutti.distributed import exchange, tensor_pickles
from tutti.distributed.constants import seconds_of
from tutti.distributed.pickling import HEAD_BYTES, Packed, read_heads, read_sizes
from tutti.errors import Error


def test_reduce_ops_and_levels_are_values():
    R = dist.ReduceOp
    assert len({R.SUM, R.MAX, R(R.SUM)}) == 2
    for op in (R.SUM, R(R.BXOR)):
        assert pickle.loads(pickle.dumps(op)) == op == copy.deepcopy(op) == copy.copy(op)
    scaled = dist.premul_sum(2.0)
    assert isinstance(scaled, R) and scaled != R.PREMUL_SUM and copy.deepcopy(scaled).factor == 2.0
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(scaled)
    for wrong in (None, True):
        with pytest.raises(TypeError, match="factor"):
            dist.premul_sum(wrong)
    with pytest.raises(TypeError, match="ReduceOp takes"):
        R("sum")
    with pytest.raises(AttributeError):
        dist.reduce_op.NOTHING
    assert str(dist.DebugLevel.INFO) == "DebugLevel.INFO" and repr(dist.DebugLevel.INFO) == "<DebugLevel.INFO: 1>"


def test_timeouts_are_timedeltas_or_seconds():
    assert seconds_of(datetime.timedelta(milliseconds=1500)) == 1.5 == seconds_of(1.5)
    assert seconds_of(None) is None and seconds_of(datetime.timedelta(0)) is None


@pytest.mark.parametrize("make", [
    lambda folder: dist.HashStore(), lambda folder: dist.FileStore(str(folder / "store")),
    lambda folder: dist.TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False),
    lambda folder: dist.PrefixStore("part", dist.HashStore())], ids=["hash", "file", "tcp", "prefix"])
def test_the_barrier_of_a_store(make, tmp_path):
    store, passed = make(tmp_path), []
    late = [threading.Thread(target=lambda: (store.barrier("here", 3), passed.append(1))) for _ in range(2)]
    for thread in late:
        thread.start()
    with pytest.raises(TimeoutError):
        store.barrier("there", 2, datetime.timedelta(milliseconds=50))
    assert not passed
    store.barrier("here", 3, 20)
    for thread in late:
        thread.join(20)
    assert passed == [1, 1]
    with pytest.raises(ValueError, match="4 have come to 'here', which is for 3"):
        store.barrier("here", 3)
    with pytest.raises(ValueError, match="at least one"):
        store.barrier("nowhere", 0)


@pytest.mark.parametrize("value", [
    3, "x" * 100_000, {"a": [1, None]}, np.arange(5), np.arange(100_000.0).reshape(100, 1000)[::2],
    np.asfortranarray(np.arange(40_000).reshape(200, 200)), [np.zeros(20_000), bytearray(100_000)],
    np.zeros(20_000, [("a", "i4"), ("b", "f8")]), np.array(["a", "bc"]), np.float32(2.5)])
def test_pickles_come_back(value):
    packed = Packed(value)
    (arrived,) = read_heads(packed.head)
    if isinstance(arrived, bytes):  # all of it
        assert arrived == packed.body and packed.rest == []
        got = pickle.loads(arrived)
    else:
        late = [arrived.body] if arrived.late else []
        for place, sent in zip(late, packed.rest):
            memoryview(place)[:] = sent
        parts = arrived.make_room()
        assert [memoryview(each).nbytes for each in late + parts] == [memoryview(each).nbytes for each in packed.rest]
        for place, sent in zip(late + parts, packed.rest):
            memoryview(place)[:] = sent
        got = arrived.value()
    if isinstance(value, np.ndarray):
        assert got.dtype == value.dtype and (got == value).all() and got.flags.writeable
    elif isinstance(value, list):
        assert (got[0] == value[0]).all() and got[1] == value[1]
    else:
        assert got == value


def test_large_arrays_travel_beside_the_pickle():
    value = np.arange(1_000_000.0)
    packed = Packed([value, value[:10]])
    assert len(packed.body) < 2000 and len(packed.buffers) == 1
    assert np.frombuffer(packed.buffers[0]).ctypes.data == value.ctypes.data  # uncopied


def numbers(*values):
    return b"".join(value.to_bytes(8, "little") for value in values)


def test_sizes_that_cannot_be_are_refused():
    for head in (numbers(0, 0), b"\xff" * 16, numbers(1 << 40, 100), numbers(0) + b"\0\0\0\0\0\0\1\1",
                 numbers((1 << 64) - 1, 0), numbers((1 << 64) - 1, 4097)):
        with pytest.raises(Error, match="cannot be"):
            read_heads(Packed(1).head + head.ljust(HEAD_BYTES, b"\0"))
    for size in (0, 5, 1 << 60):
        with pytest.raises(Error, match="cannot be"):
            read_sizes(numbers(size) + b"pickle", 1)
    assert read_sizes(numbers(*[1 << 45] * 3), 2) == [1 << 45] * 2
    with pytest.raises(Error, match="announced buffers of"):
        read_sizes(numbers(*[1 << 45] * 3), 3)


@pytest.mark.torch
def test_memory_under_a_tensor_does_not_move():
    octets = bytearray(8)
    tensor = tensor_pickles.tensor(octets, "int64", (1,), False)
    with pytest.raises(BufferError):
        octets.extend(bytes(1 << 20))
    octets[0] = 5
    assert tensor.tolist() == [5] and str(tensor.dtype) == "torch.int64"


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
    def irecv(size, *_, **__):
        size[:] = (1 << 62).to_bytes(8, "little")
        return mock.Mock()

    low = mock.Mock(backend="native", authenticated=True, rank=0, irecv=irecv, derive_secret=lambda _: b"")
    low.name = "world"
    low._new_group_among.return_value = low
    parent = types.SimpleNamespace(_low=low, _index={0: 0, 1: 1}, _own=0)
    monkeypatch.setattr(exchange._tutti, "init_process_group", lambda exchange, **_: exchange("worker_addresses", b"mine"))
    with pytest.raises(Error, match="rank 1 of world announced an address of"):
        exchange.make_among(parent, [0, 1], "pair", None)


def test_futures():
    first = dist.Future()
    heard = []
    second = first.then(lambda f: heard.append(1) or f.value() + 1)
    third = second.then(lambda f: f.value() / 0)
    assert not first.done() and not third.done()
    with pytest.raises(RuntimeError, match="no value"):
        first.value()
    first.set_result(1)
    with pytest.raises(RuntimeError):
        first.set_result(4)
    assert second.wait() == 2 and heard == [1] and isinstance(third.exception(), ZeroDivisionError)
    failed = dist.Future()
    with pytest.raises(TypeError):
        failed.set_exception("text")
    failed.set_exception(KeyError("x"))
    with pytest.raises(KeyError):
        failed.wait()


def test_callbacks_that_fail_are_logged(caplog):
    future, heard = dist.Future(), []
    future.add_done_callback(lambda _: 1 / 0)
    future.add_done_callback(lambda done: heard.append(done.value()))
    future.set_result(3)
    assert heard == [3] and future.wait() == 3
    future.add_done_callback(lambda _: {}["missing"])  # at once
    assert [record.exc_info[0] for record in caplog.records] == [ZeroDivisionError, KeyError]


def test_before_init(monkeypatch):
    dist.destroy_process_group(dist.GroupMember.NON_GROUP_MEMBER)  # nothing
    for call in (dist.get_rank, dist.barrier, lambda: dist.all_reduce(np.ones(1)), dist.new_group):
        with pytest.raises(ValueError, match="Default process group .* call init_process_group.$"):
            call()
    # Beside a world of torch's that tutti.torch serves.
    torch = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "torch.distributed", torch)
    monkeypatch.setitem(sys.modules, "tutti.torch", types.ModuleType("tutti.torch"))
    for call in (dist.get_rank, dist.barrier, lambda: dist.all_reduce(np.ones(1)), dist.new_group):
        with pytest.raises(ValueError, match=r"call init_process_group\. \(torch\.distributed has a world, which tutti\.torch serves; "
                                             r"tutti\.distributed would have one of its own\. Call the functions of torch\.distributed"):
            call()
    torch.is_initialized = lambda: False
    with pytest.raises(ValueError, match="init_process_group.$"):
        dist.barrier()
