"""What tutti sees in an array, and what it refuses. A world of one rank, in this process."""

import array
import ctypes
import sys
import types

import ml_dtypes
import numpy as np
import pytest
import tutti
from hypothesis import given, settings
from hypothesis import strategies as st
from operation_values import COMPLEX, WHOLE, OnlyDlpack
from tutti._tutti import count, dtype_name

import stacks

Premul = tutti.ReduceOp.PREMUL_SUM


@pytest.mark.parametrize("name", ["bool", *WHOLE, "float16", "float32", "float64", *COMPLEX])
def test_numpys_dtypes(name):
    assert dtype_name(np.zeros(3, name)) == name
    assert dtype_name(np.zeros((), name)) == name and count(np.zeros((), name)) == 1
    assert dtype_name(np.zeros((2, 0), name)) == name and count(np.zeros((2, 0), name)) == 0
    assert dtype_name(np.dtype(name).type(1)) == name  # a NumPy scalar is an array without dimensions


@pytest.mark.parametrize("kind, name", [(ml_dtypes.bfloat16, "bfloat16"), (ml_dtypes.float8_e4m3fn, "float8_e4m3"),
                                        (ml_dtypes.float8_e5m2, "float8_e5m2")])
def test_the_types_of_ml_dtypes(kind, name, world):
    assert dtype_name(np.zeros(3, kind)) == name
    x = np.ones((4, 6), kind)
    view = x[::2, ::-3].T
    world.all_reduce(view, Premul, factor=2.0)
    assert (view.astype(float) == 2).all() and x.astype(float).sum() == 4 * 6 + view.size
    x.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        world.all_reduce(x)
    out = np.zeros((4, 6), kind)
    world.all_gather(out, x)
    assert out.tobytes() == x.tobytes()


@pytest.mark.parametrize("letter, name", [("b", "int8"), ("B", "uint8"), ("h", "int16"), ("H", "uint16"), ("i", "int32"),
                                          ("I", "uint32"), ("l", "int64"), ("L", "uint64"), ("q", "int64"), ("Q", "uint64"),
                                          ("f", "float32"), ("d", "float64")])
def test_arrays_of_the_standard_library(letter, name):
    assert dtype_name(array.array(letter, [0])) == name
    assert dtype_name(memoryview(bytearray(16)).cast(letter)) == name


@pytest.mark.parametrize("wrong, why", [
    (type("Series", (), {"to_numpy": None})(), r"is no array that can be used in place; pass the NumPy array of its to_numpy\(\), and keep"),
    (np.ma.masked_array([1.0, 2.0], [True, False]), r"a MaskedArray, is masked, and no operation keeps a mask; pass its filled\("),
    (3, "is no array that can be used in place; pass .*__dlpack__ or __cuda_array_interface__, or a buffer$"), ([1.0], r"pass a NumPy array of it \(numpy.asarray\), and keep that: results are written into it$"), (None, "is no array"), ("text", "is no array"),
    (np.array([None]), "holds Python objects, which are no numbers; use all_gather_object, broadcast_object_list or"),
    (np.zeros(3, [("a", "O")]), "holds Python objects"), (np.zeros(3, "M8[s]"), "does not know"),
    (np.zeros(3, "U4"), r"does not know \(<U4\)"), (np.zeros(3, ">f4"), r"does not know \(>f4\)"),
    (np.zeros(3, "V3"), "does not know"), (np.zeros(3, np.longdouble), "does not know"),
    (np.zeros(3, ml_dtypes.float8_e4m3), "does not know"), (np.zeros(3, ml_dtypes.int4), "does not know"),
    (np.zeros(3, [("a", "f4"), ("b", "u1")])["a"], "no multiple"),
    (np.frombuffer(bytearray(9), np.uint8)[1:].view(np.float64), "address"),
    (np.zeros((2,) * 10)[(slice(None, None, -1),) * 10].transpose([0, 2, 1, 4, 3, 6, 5, 8, 7, 9]),
     "more than 8 dimensions")])
def test_what_is_refused(wrong, why, world):
    for call in (lambda: world.all_reduce(wrong), lambda: world.all_gather(np.zeros(3), wrong),
                 lambda: world.broadcast(wrong)):
        with pytest.raises(TypeError, match=why):
            call()
    world.barrier()


def test_read_only_is_refused_for_what_is_written(world):
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    for wrong in (frozen, b"abcd", memoryview(b"abcd")):
        for call in (lambda: world.all_reduce(wrong), lambda: world.reduce(wrong),
                     lambda: world.all_gather(wrong, wrong), lambda: world.scatter(wrong, wrong),
                     lambda: world.irecv(wrong, 0), lambda: world.all_gather_list([wrong], wrong)):
            with pytest.raises(TypeError, match="is read-only, and .*; pass a copy, and keep the copy: it has the result"):
                call()
        out = bytearray(4) if isinstance(wrong, (bytes, memoryview)) else np.ones(4)
        world.all_gather(out, wrong)
        assert bytes(out) == bytes(wrong)
        world.broadcast(wrong)  # the root only reads


def test_many_dimensions_become_few(world):
    x = np.ones((1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2))
    world.all_reduce(x, Premul, factor=3)
    assert (x == 3).all()
    view = np.ones((2, 2, 2, 2, 2, 2, 2, 2, 4))[..., ::2]
    world.all_reduce(view, Premul, factor=3)
    assert (view == 3).all() and (view.base == 1).sum() == view.size


@settings(max_examples=200, deadline=None)
@given(data=st.data(), shape=st.lists(st.integers(0, 4), max_size=6))
def test_any_slices_are_used_in_place(world, data, shape):
    x = np.ones(shape, np.int16)
    view = x[(*(data.draw(st.slices(extent)) for extent in shape), ...)]
    view = view.transpose(data.draw(st.permutations(range(view.ndim))))
    expected = x.copy()
    world.all_reduce(view, Premul, factor=5)
    assert (view == 5).all() and x.sum() == expected.sum() + 4 * view.size


def test_a_buffer_cannot_change_its_size_under_an_operation(world):
    letters = bytearray(8)
    work = world.irecv(letters, 0)
    with pytest.raises(BufferError):
        letters.append(1)
    world.send(b"12345678", 0)
    work.wait()
    letters.append(1)
    assert letters == b"12345678\x01"


def test_results_are_the_callers_objects(world):
    x, y = np.zeros(2), np.ones(2)
    work = world.all_gather(x, y, async_op=True)
    assert work.result[0] is x and len(work.result) == 1
    work.wait()
    assert work.result[0] is x
    assert world.barrier(async_op=True).result == []


def test_numpy_and_torch_are_not_imported():
    assert stacks.output([sys.executable, "-c", """
import sys, tutti
letters = bytearray(b"abc")
with tutti.init_process_group(store=tutti.HashStore(), rank=0, world_size=1) as world:
    world.all_reduce(letters)
    try:
        world.all_reduce(3)
    except TypeError:
        pass
print([name for name in ("numpy", "torch", "mpi4py", "asyncio") if name in sys.modules])
"""], 60) == "[]\n"


def test_a_torch_that_is_only_a_folder_is_none(world, monkeypatch):
    """Python makes an empty module of a folder without __init__.py."""
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    with pytest.raises(TypeError, match="is no array"):
        world.all_reduce(3)
    x = Handmade()
    world.all_reduce(x, Premul, factor=2)
    assert list(x.values) == [2.0] * 4 + [1.0] * 4


class Managed(ctypes.Structure):
    """DLPack's oldest struct, filled by hand."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Handmade:
    """Four floats with `__dlpack__`, on whatever device and of whatever type and shape it is told."""

    def __init__(self, device=1, code=2, bits=32, lanes=1, offset=0, shape=(4,), strides=None, **fields):
        self.values = (ctypes.c_float * 8)(*[1.0] * 8)
        self.managed = Managed(ctypes.addressof(self.values), device, 0, len(shape), code, bits, lanes,
                               (ctypes.c_int64 * len(shape))(*shape) if shape else None,
                               strides and (ctypes.c_int64 * len(strides))(*strides), offset, None, None)
        for name, value in fields.items():
            setattr(self.managed, name, value)
        self.device = device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, **_):
        return capsule(ctypes.addressof(self.managed), b"dltensor")


def capsule(address, name):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, name, None)


def test_dlpack_of_others(world):
    x = Handmade()
    world.all_reduce(x, Premul, factor=2)
    assert list(x.values) == [2.0] * 4 + [1.0] * 4
    x = Handmade(offset=8)
    world.all_reduce(x, Premul, factor=2)
    assert list(x.values) == [1.0] * 2 + [2.0] * 4 + [1.0] * 2
    assert dtype_name(Handmade(code=4, bits=16)) == "bfloat16"
    for device in (4, 7, 10):
        with pytest.raises(TypeError, match="not in the memory of the CPU or of an NVIDIA GPU; copy it there"):
            world.all_reduce(Handmade(device=device))
    for unknown in ({"lanes": 2}, {"bits": 128}, {"code": 3, "bits": 64}, {"code": 17, "bits": 4},
                    {"code": 6, "bits": 12}, {"code": 10, "bits": 16}, {"code": 12, "bits": 4}, {"code": 99}):
        with pytest.raises(TypeError, match="does not know"):
            world.all_reduce(Handmade(**unknown))


class WithTable(Handmade):
    """DLPack's table of functions, which torch's tensors have: only its function that lends a tensor is there."""

    @ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(Managed))
    def lend(self, tensor):
        ctypes.memmove(tensor, ctypes.byref(self.managed), Managed.context.offset)
        return 0

    # The version, 1.3, and no older table; then the functions.
    table = (ctypes.c_uint64 * 7)(1 | 3 << 32, 0, 0, 0, 0, ctypes.cast(lend, ctypes.c_void_p).value, 0)
    name = b"dlpack_exchange_api"  # a capsule does not keep its name
    __dlpack_c_exchange_api__ = capsule(ctypes.addressof(table), name)


@pytest.mark.parametrize("kind", [Handmade, WithTable])
def test_malformed_tensors_of_dlpack(world, kind):
    x = kind(shape=(2, 2), strides=(4, 2))
    world.all_reduce(x, Premul, factor=2)
    assert list(x.values) == [2.0, 1.0] * 4
    beyond = "reach further than memory does"
    for fields, why in [
        ({"shape": (-1, -4)}, r"has a shape with a negative extent \(-1\)"),
        ({"shape": (1 << 62, 2)}, beyond),
        ({"shape": (1 << 62,)}, beyond),
        ({"strides": (1 << 62,)}, beyond),
        ({"strides": (1 << 62,), "code": 5, "bits": 32}, beyond),
        ({"strides": (1 << 60,), "code": 5, "bits": 32}, beyond),
        ({"strides": (-(1 << 63),)}, beyond),
        ({"device_type": 2, "device_id": 1 << 16}, "is on GPU 65536 by its own account"),
        ({"ndim": -1}, "its __dlpack__ gives no tensor that can be read" if kind is Handmade else "without a valid shape .ndim -1"),
        *([] if kind is Handmade else [({"shape": (), "ndim": 1}, "without a valid shape .ndim 1")]),
    ]:
        with pytest.raises(TypeError, match=why):
            world.all_reduce(kind(**fields))
    for offset in (0, 8) if kind is WithTable else (0,):
        with pytest.raises(tutti.InvalidArgument, match="has no memory .a null pointer"):
            world.all_reduce(kind(data=None, offset=offset))


def test_dlpack_that_is_read_only_or_refuses(world):
    class Refusing(OnlyDlpack):
        def __dlpack__(self, **_):
            raise BufferError("not today")

    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    out = np.zeros(3)
    world.all_gather(out, OnlyDlpack(frozen))
    assert out.tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="read-only"):
        world.all_reduce(OnlyDlpack(frozen))
    with pytest.raises(TypeError, match="cannot be used in place: not today"):
        world.all_reduce(Refusing(out))
