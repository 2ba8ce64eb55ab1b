"""Arrays on GPUs, with a CUDA driver whose GPUs are memory of the host (tests/support/mock_cuda_driver.cpp)."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import types

import numpy as np
import pytest
import tutti
import tutti.distributed as dist

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """The variables of a process that finds the driver."""
    library = tmp_path_factory.mktemp("driver") / "libmock_cuda_driver.so"
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-shared", "-fPIC", "-ffp-contract=off", "-o",
                    str(library), "-I", str(ROOT / "src"), "-I", str(ROOT / "tests"),
                    *[str(ROOT / f"tests/support/mock_{name}.cpp") for name in ("cuda", "cuda_driver", "gpu")]], check=True, timeout=120)
    return {"TUTTI_CUDA_LIBRARY": str(library), "TUTTI_TEST_GPUS": "2"}


class OnGpu:
    """A NumPy array that says it is on a GPU, by `__cuda_array_interface__` alone."""

    def __init__(self, values, stream=None, gpu=0, **fields):
        self.values = values
        self.device = types.SimpleNamespace(id=gpu)
        self.fields = {"shape": values.shape, "typestr": values.dtype.str, "version": 3, "stream": stream,
                       "data": (values.ctypes.data, not values.flags.writeable),
                       "strides": None if values.flags.c_contiguous else values.strides, **fields}

    @property
    def __cuda_array_interface__(self):
        return self.fields


class InMemoryOfGpu:
    """Four floats that the driver has allocated on a GPU. Nothing but their address tells of which one."""

    def __init__(self, gpu):
        driver = ctypes.CDLL(os.environ["TUTTI_CUDA_LIBRARY"])
        context, address = ctypes.c_void_p(), ctypes.c_size_t()
        assert [driver.cuInit(0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), gpu), driver.cuCtxPushCurrent_v2(context),
                driver.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(16), None), driver.cuCtxPopCurrent_v2(None)] == [0] * 5
        self.values = np.frombuffer((ctypes.c_float * 4).from_address(address.value), "float32")
        self.values[:] = 1
        self.__cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "version": 3, "data": (address.value, False)}


class RefusesTheBuffer(np.ndarray):
    """It has the buffer protocol, which raises, as that of CuPy's arrays does. Its dates say that they are integers of a
    GPU."""

    __array_struct__ = None

    @property
    def __dlpack__(self):
        raise AttributeError

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": "<i8", "version": 3, "data": (self.ctypes.data, False)}


def lists_of_arrays():
    """Two tensors of each process, on different GPUs."""
    rank = dist.get_rank()

    def each(value):
        return [OnGpu(np.full(3, 1.0 * value + number), gpu=number) for number in range(2)]

    def values(arrays):
        return [array.values.tolist() for array in arrays]

    dist.all_reduce_multigpu(mine := each(2 * rank))
    assert values(mine) == [[6.0] * 3] * 2
    work = dist.all_reduce_multigpu(mine := each(2 * rank), dist.ReduceOp.AVG, async_op=True)
    work.wait()
    assert values(mine) == [[1.5] * 3] * 2
    dist.reduce_multigpu(mine := each(2 * rank), 1, dst_tensor=1)
    assert values(mine) == [[2.0 * rank] * 3, [6.0 if rank == 1 else 1.0] * 3]
    dist.broadcast_multigpu(mine := each(10 * rank), 1, src_tensor=1)
    assert values(mine) == [[11.0] * 3] * 2
    rows = [[OnGpu(np.zeros(3), gpu=number) for _ in range(4)] for number in range(2)]
    dist.all_gather_multigpu(rows, each(10 * rank))
    assert [values(row) for row in rows] == [[[0.0] * 3, [1.0] * 3, [10.0] * 3, [11.0] * 3]] * 2
    with pytest.raises(tutti.InvalidArgument, match="all must be on GPUs, or all on the CPU"):
        dist.all_reduce_multigpu([mine[0], np.zeros(3)])
    dist.all_reduce_multigpu(mine := [OnGpu(np.ones(3), stream=0x71 + number, gpu=number) for number in range(2)])
    assert values(mine) == [[4.0] * 3] * 2


# Kinds of memory, as DLPack numbers them.
CUDA, PINNED_HOST, MANAGED, ONE_API = 2, 3, 13, 14


def answer_of_driver(name, kind):
    answer = kind()
    getattr(ctypes.CDLL(os.environ["TUTTI_CUDA_LIBRARY"]), name)(ctypes.byref(answer))
    return answer.value or 0


def stream_of_last_call():
    return answer_of_driver("tuttiTestLastStream", ctypes.c_void_p)


def in_a_group(body):
    with tutti.init_process_group() as group:
        return body(group)


def run(body, ranks, env=None):
    return tutti.multiprocessing.run(in_a_group, ranks, args=(body,), init=False, env=env, start_method="fork")


def every_form(group):
    rank, size = group.rank, group.size
    for dtype in ("bool", "uint8", "int64", "float16", "float64", "complex64"):
        x = np.ones(5, dtype)
        group.all_reduce(OnGpu(x))
        assert x.tolist() == (np.ones(5, dtype) if dtype == "bool" else np.full(5, size, dtype)).tolist(), dtype
    wide = np.zeros((4, 6), "float32")
    wide[:, ::2] = rank + 1
    group.all_reduce(OnGpu(wide[:, ::2], gpu=1))
    assert wide[:, ::2].tolist() == [[3.0] * 3] * 4 and not wide[:, 1::2].any()
    everything = np.zeros(2 * size, "int32")
    frozen = np.full(2, rank, "int32")
    frozen.flags.writeable = False
    group.all_gather(OnGpu(everything), OnGpu(frozen))
    assert everything.tolist() == [0, 0, 1, 1]
    dates = np.full(3, rank + 1, "M8[s]").view(RefusesTheBuffer)
    with pytest.raises(ValueError):
        memoryview(dates)
    group.all_reduce(dates)
    assert np.asarray(dates).view("int64").tolist() == [3] * 3
    mixed = np.full(3, rank + 1.0)  # of a GPU on one rank, of the CPU on the other
    group.all_reduce(OnGpu(mixed) if rank == 0 else mixed)
    assert mixed.tolist() == [3.0] * 3
    works = [group.isend(OnGpu(np.full(2, rank, "int16")), 1 - rank)]
    got = np.zeros(2, "int16")
    works.append(group.irecv(OnGpu(got), 1 - rank))
    for work in works:
        work.wait()
    assert got.tolist() == [1 - rank] * 2


def by_torchs_names():
    rank = dist.get_rank()
    x = np.full(3, rank + 1.0)
    dist.all_reduce(OnGpu(x))
    assert x.tolist() == [3.0] * 3
    got = [np.zeros(3), np.zeros(3)]
    dist.all_gather([OnGpu(one) for one in got], OnGpu(np.full(3, float(rank))))
    assert got[1].tolist() == [1.0] * 3


@pytest.mark.parametrize(("body", "direct"), [(by_torchs_names, "off"), (by_torchs_names, "on"), (lists_of_arrays, "off")])
def test_torchs_names_take_them(driver, body, direct):
    tutti.multiprocessing.run(body, 2, env={**driver, "TUTTI_CUDA_IPC": direct}, start_method="fork")


def large_messages(group):
    rank, other = group.rank, 1 - group.rank
    for count in (20_000, 3_000_001):  # more than 64 KiB, and more than a part of 8 MiB
        mine, theirs = [np.arange(count, dtype="float32") + one for one in (rank, other)]
        for order in (1, -1):
            got = np.zeros_like(mine)
            calls = [lambda: group.isend(OnGpu(mine, gpu=rank), other), lambda got=got: group.irecv(OnGpu(got, gpu=rank), other)]
            for work in [call() for call in calls[::order]]:
                work.wait()
            assert np.array_equal(got, theirs), (count, order)
    return answer_of_driver("tuttiTestSharedMemories", ctypes.c_int)


@pytest.mark.parametrize(("direct", "shared"), [("off", 0), ("on", 2)])
def test_large_messages_in_both_directions(driver, direct, shared):
    """The driver has made memory that the ranks share, for each direction, or none."""
    assert run(large_messages, 2, env={**driver, "TUTTI_CUDA_IPC": direct}) == [shared] * 2


def streams(group):
    """Calls are on the stream of the array."""
    x = np.ones(4)
    group.all_reduce(OnGpu(x, stream=0x50))
    assert stream_of_last_call() == 0x50
    group.isend(OnGpu(x, stream=0x60), 0).wait()
    assert stream_of_last_call() == 0x60
    group.recv(OnGpu(x), 0)
    assert stream_of_last_call() == 0
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(get_current_stream=lambda gpu: types.SimpleNamespace(ptr=0x70 + gpu))
    sys.modules["cupy"] = cupy

    class OfCupy(HasDlpack):
        __module__ = "cupy"

    cupy.ndarray = OfCupy
    for kind in (CUDA, MANAGED):
        group.all_reduce(OfCupy(kind))
        assert stream_of_last_call() == 0x71, "that of GPU 1, where the array is"
        group.all_reduce(OnGpu(x))
        assert stream_of_last_call() == 0


class HasDlpack:
    """Four floats with `__dlpack__`, on GPU 1 or in other memory, as DLPack numbers it."""

    def __init__(self, kind=2):
        self.kind = kind
        self.values = np.ones(4, "float32")
        self.of_cpu = self.values.__dlpack__()

    def __dlpack_device__(self):
        return self.kind, 1

    def __dlpack__(self, **_):
        # The device stands behind the pointer to the data.
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype = ctypes.c_void_p
        pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        at = pointer(self.of_cpu, b"dltensor")
        ctypes.c_int32.from_address(at + 8).value = self.kind
        ctypes.c_int32.from_address(at + 12).value = 1
        return self.of_cpu


class RefusesDlpack(OnGpu):
    """It has both interfaces, and DLPack's is of no use."""

    def __dlpack_device__(self):
        return CUDA, 0

    def __dlpack__(self, **_):
        raise BufferError("not today")


class RefusesBoth(RefusesDlpack):
    __cuda_array_interface__ = None


class Elsewhere(HasDlpack):
    """It has both interfaces, which tell of different memory."""

    @property
    def __cuda_array_interface__(self):
        return OnGpu(self.values).fields


def gpus_that_the_driver_knows(group):
    """An array without a number is on the GPU of its memory."""
    for gpu in range(2):
        array = InMemoryOfGpu(gpu)
        group.all_reduce(array, tutti.ReduceOp.PREMUL_SUM, factor=2.0)
        assert array.values.tolist() == [2.0] * 4
        group.all_gather(array, OnGpu(np.full(4, 3.0, "float32"), gpu=gpu))
        assert array.values.tolist() == [3.0] * 4
        with pytest.raises(tutti.InvalidArgument, match=f"the output is in the memory of cuda:{gpu}, not of cuda:{1 - gpu}"):
            group.all_gather(array, OnGpu(np.ones(4, "float32"), gpu=1 - gpu))
    array.device = types.SimpleNamespace(id=0)  # it may lie, and is believed
    with pytest.raises(tutti.InvalidArgument, match="the output is in the memory of cuda:0, not of cuda:1"):
        group.all_gather(array, OnGpu(np.ones(4, "float32"), gpu=1))


def kinds_of_memory(group):
    for kind, place in ((CUDA, "cuda:1"), (MANAGED, "cuda:1"), (PINNED_HOST, "cpu")):
        group.all_reduce(array := HasDlpack(kind), tutti.ReduceOp.PREMUL_SUM, factor=2.0)
        assert array.values.tolist() == [2.0] * 4
        with pytest.raises(tutti.InvalidArgument, match=f"the output is in the memory of {place}, not of cuda:0"):
            group.all_gather(HasDlpack(kind), OnGpu(np.ones(4, "float32")))
    with pytest.raises(TypeError, match="is not in the memory of the CPU or of an NVIDIA GPU"):
        group.all_reduce(HasDlpack(ONE_API))
    for array in (RefusesDlpack(np.ones(4, "float32")), Elsewhere(ONE_API)):
        group.all_reduce(array, tutti.ReduceOp.PREMUL_SUM, factor=2.0)
        assert array.values.tolist() == [2.0] * 4
    with pytest.raises(TypeError, match="has a shape with a negative extent"):
        group.all_reduce(RefusesDlpack(np.ones(4), shape=(-1,)))
    with pytest.raises(TypeError, match="cannot be used in place: not today"):
        group.all_reduce(RefusesBoth(np.ones(4)))


WRONG = "has a __cuda_array_interface__ "
BEYOND = "has a shape or strides that reach further than memory does"
MALFORMED = [
    *((fields, WRONG + rf"with a 'shape' and 'strides' that differ in length \({lengths}\)") for fields, lengths in (
        ({"strides": (8, 8)}, "1 and 2"), ({"strides": ()}, "1 and 0"), ({"shape": (2, 2), "strides": (8,)}, "2 and 1"),
        ({"shape": (), "strides": (8,)}, "0 and 1"))),
    *(({"strides": strides}, WRONG + "with 'strides' that are no tuple of whole numbers") for strides in (8, (1 << 63,))),
    *(({"shape": shape}, WRONG + "with a 'shape' that is no tuple of whole numbers") for shape in (4, (4.0,))),
    ({"shape": None}, WRONG + "without 'shape'"),
    *(({"shape": (other, extent)}, rf"has a shape with a negative extent \({extent if other >= 0 else other}\)")
      for other, extent in ((-1, 6), (-1, -6), (0, -6))),
    *(({"shape": shape}, BEYOND) for shape in ((1 << 62, 2), (1 << 32, 1 << 32), (1 << 60,))),  # the last: its bytes
    *(({"strides": (stride,)}, BEYOND) for stride in (1 << 62, -(1 << 63))),
    ({"shape": (2, 2, 2), "strides": (1 << 61, 1 << 61, -(1 << 61))}, BEYOND),
    *(({"data": data}, WRONG + "with a 'data' that is no pair of an address and a bool")
      for data in (7, (8,), (8, 0), ("8", False), (-8, False))),
    ({"typestr": 8}, WRONG + "with a 'typestr' that is no text"),
    ({"mask": OnGpu(np.ones(4, "bool"))}, WRONG + "with a 'mask', which an operation would not heed"),
    *(({"stream": stream}, WRONG + "with a 'stream' that is no handle of one") for stream in (-1, "a")),
    # The bits of the second one are those of a float16, modulo 256.
    *(({"typestr": code}, rf"has elements of a type that tutti does not know \({re.escape(code)}\)")
      for code in ("", "f8", "<f34", "<f99", "xf8", "<f-8", "|V8", "<b2", "<f8f8")),
]


class Raising:
    """Its interface raises what is no AttributeError, as that of a torch tensor with a gradient."""

    def __init__(self, _):
        pass

    @property
    def __cuda_array_interface__(self):
        raise ZeroDivisionError


class RaisingBesideABuffer(RefusesTheBuffer):
    __cuda_array_interface__ = Raising.__cuda_array_interface__

    def __new__(cls, count):
        return np.zeros(count, "M8[s]").view(cls)


class RaisingDlpack(Raising):
    __cuda_array_interface__ = None
    __dlpack__ = Raising.__cuda_array_interface__


def refusals(group):
    """What cannot be used is refused at the call."""
    x = np.ones(4)
    frozen = np.ones(4)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="read-only"):
        group.all_reduce(OnGpu(frozen))
    with pytest.raises(TypeError, match="does not know .<M8"):
        group.all_reduce(OnGpu(x, typestr="<M8[s]"))
    with pytest.raises(TypeError, match="does not know .>f8"):
        group.all_reduce(OnGpu(x, typestr=">f8"))
    for number in (5, -1):
        with pytest.raises(tutti.InvalidArgument, match=f"there is no device cuda:{number};"):
            group.all_reduce(OnGpu(x, gpu=number))
    for gpu, why in ((1 << 16, "is on GPU 65536 by its own account"), ("a", "has a device.id that is no whole number")):
        with pytest.raises(TypeError, match=f"all_reduce: the array, a OnGpu, {why}"):
            group.all_reduce(OnGpu(x, gpu=gpu))
    with pytest.raises(tutti.InvalidArgument, match="has no memory .a null pointer"):
        group.all_reduce(OnGpu(x, data=(0, False)))
    for fields, why in MALFORMED:
        with pytest.raises(TypeError, match=f"all_reduce: the array, a OnGpu, {why}"):
            group.all_reduce(OnGpu(x, **fields))
    for name in ("typestr", "shape", "data"):
        array = OnGpu(x)
        del array.fields[name]
        with pytest.raises(TypeError, match=f"has a __cuda_array_interface__ without '{name}'"):
            group.all_reduce(array)
    array.fields = 7
    with pytest.raises(TypeError, match="has a __cuda_array_interface__ that is no dict, but a value of type int"):
        group.all_reduce(array)
    for raising in (Raising, RaisingBesideABuffer, RaisingDlpack):
        with pytest.raises(ZeroDivisionError):
            group.all_reduce(raising(4))
    group.all_reduce(OnGpu(x, shape=(0,), data=(0, False)))
    group.all_reduce(OnGpu(x, shape=(1 << 62, 0, 1 << 62), data=(0, False)))
    backwards = np.arange(4.0)
    group.all_reduce(OnGpu(backwards[::-1]), factor=2.0, op=tutti.ReduceOp.PREMUL_SUM)
    assert backwards.tolist() == [0.0, 2.0, 4.0, 6.0]
    group.all_reduce(OnGpu(x))
    assert x.tolist() == [1.0] * 4


@pytest.mark.parametrize(("body", "size"), [(every_form, 2), (streams, 1), (gpus_that_the_driver_knows, 1),
                                            (kinds_of_memory, 1), (refusals, 1)])
def test_case(driver, body, size):
    run(body, size, env=driver)


def without(group):
    with pytest.raises(tutti.InvalidArgument, match="the input is in the memory of cuda:0"):
        group.all_reduce(OnGpu(np.ones(4)))


def test_without_a_gpu_the_call_says_so():
    run(without, 1)
