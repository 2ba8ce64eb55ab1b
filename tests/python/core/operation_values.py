"""Inputs of the operations that operation_cases.py tests, their layouts, and what comes of them."""

import math

import ml_dtypes
import numpy as np

NARROW = ["bfloat16", "float8_e4m3fn", "float8_e5m2"]
FLOATS = ["float16", "float32", "float64", *NARROW]
WHOLE = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
COMPLEX = ["complex64", "complex128"]
DTYPES = ["bool", *WHOLE, *FLOATS, *COMPLEX]


class OnlyDlpack:
    """An array of another kind, of which nothing but DLPack's interface is there."""

    def __init__(self, inside):
        self.inside = inside

    def __dlpack__(self, **options):
        return self.inside.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.inside.__dlpack_device__()


def dtype_named(name):
    return np.dtype(getattr(ml_dtypes, name) if name in NARROW else name)


def ops_of(name):
    """Names of the ReduceOps that have a meaning for a dtype."""
    if name == "bool" or name in WHOLE:
        return ["SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]
    if name in COMPLEX:
        return ["SUM", "PRODUCT"]
    return ["SUM", "PRODUCT", "MIN", "MAX"]


def values(rank, count, dtype, seed=0):
    """Rank `rank`'s elements; every rank can say everybody's."""
    drawn = np.random.default_rng([seed, rank, count]).integers(0, 2, count)
    if dtype in COMPLEX:
        return (drawn + 1j * drawn[::-1]).astype(dtype_named(dtype))
    return drawn.astype(dtype_named(dtype))


def plain(array):
    """In a type that NumPy computes with exactly."""
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64 if array.dtype.kind not in "iu" else array.dtype)


def combined(op, arrays, dtype):
    """What the reduction of these is."""
    how = {"SUM": np.logical_or if dtype == "bool" else np.add,
           "PRODUCT": np.logical_and if dtype == "bool" else np.multiply,
           "MIN": np.minimum, "MAX": np.maximum, "BAND": np.bitwise_and,
           "BOR": np.bitwise_or, "BXOR": np.bitwise_xor}[op]
    result = plain(arrays[0]).copy()
    for other in arrays[1:]:
        result = how(result, plain(other))
    return result.astype(dtype_named(dtype))


def laid_out(flat, layout):
    """`flat` in an array of layout (shape, steps, order): with gaps, backwards, transposed. The array,
    and the memory around it with what it held."""
    shape, steps, order = layout
    view = room = np.full([max(1, extent * abs(step)) for extent, step in zip(shape, steps, strict=True)], 1, flat.dtype)
    if shape:
        view = room[tuple(slice(None, None, step) for step in steps)]
        view = view[tuple(slice(0, extent) for extent in shape)].transpose(order)
    view[...] = flat.reshape(view.shape)
    return view, room


def filled(count, layout, dtype, flat=None):
    """An array of `count` elements: of that layout if it has as many, else contiguous. And the memory around it, with a
    copy of what it holds now."""
    if flat is None:
        flat = np.zeros(count, dtype_named(dtype))
    if layout is None or math.prod(layout[0]) != count:
        return flat.copy(), None
    view, room = laid_out(flat, layout)
    return view, (room, room.copy())


def same(array, expected):
    """Element by element; zeros of both signs are one."""
    got = np.ascontiguousarray(array).reshape(-1)
    assert got.dtype == expected.dtype, (got.dtype, expected.dtype)
    wanted = np.ascontiguousarray(expected).reshape(-1)
    assert got.shape == wanted.shape and (plain(got) == plain(wanted)).all(), (got, wanted)


def gaps_are_left(view, around):
    """What lies between the elements of the view has not changed; `around` is what `filled` gave."""
    if around is None:
        return
    room, before = around
    after = room.copy()
    view[...] = np.zeros(view.shape, view.dtype)
    cleared = room.copy()
    view[...] = np.ones(1, view.dtype)
    assert cleared.tobytes() != room.tobytes() or view.size == 0
    inside = room != cleared if room.dtype.kind != "V" else (
        np.frombuffer(room.tobytes(), f"u{room.itemsize}").reshape(room.shape)
        != np.frombuffer(cleared.tobytes(), f"u{room.itemsize}").reshape(room.shape))
    raw = f"u{room.itemsize}" if room.itemsize <= 8 else f"V{room.itemsize}"
    assert (after.view(raw)[~inside] == before.view(raw)[~inside]).all()


def finish(work, asynchronous):
    """Waits where there is something to wait for."""
    if asynchronous:
        assert work.wait() is True and work.is_success() and work.exception() is None
    else:
        assert work is None
