"""Every operation on several numbers of processes, in every form."""

import pathlib

import pytest
from operation_values import DTYPES, ops_of

import ranks

# Contiguous; a point; nothing; backwards with gaps; transposed.
LAYOUTS = [((12,), (1,), (0,)), ((), (), ()), ((3, 0), (1, 1), (0, 1)), ((4, 3), (2, -3), (0, 1)),
           ((3, 4), (1, 1), (1, 0))]

crew = ranks.crew_of(pathlib.Path(__file__).with_name("operation_cases"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_of_every_dtype(crew, dtype):
    for number, op in enumerate(ops_of(dtype)):
        # What a layout does is up to each rank alone: one number of ranks shows every op in every layout.
        for layout in LAYOUTS if crew.size == 3 else [LAYOUTS[number % len(LAYOUTS)]]:
            crew.run("all_reduce", dtype, op, [layout], 1, False)
        crew.run("reduce", dtype, op, LAYOUTS[3:4], 2, crew.size - 1, True)
        crew.run("scan", dtype, op, LAYOUTS[number % len(LAYOUTS):][:1], 4, number % 2 == 0, False)
        crew.run("scan", dtype, op, LAYOUTS[:1], 5, number % 2 == 1, True)
        crew.run("reduce_scatter", dtype, op, [12], LAYOUTS[3], 3, False, False)
    if dtype != "bool":
        crew.run("factors", dtype)
    if dtype in ("float32", "float64", "float16", "bfloat16"):
        crew.run("average", dtype)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "complex128"])
def test_blocks(crew, dtype, listed, asynchronous):
    root = crew.size // 2
    for layout in LAYOUTS[:1] + LAYOUTS[3:]:
        for counts in ([12], [12, 0, 5], [0]):
            crew.run("all_gather", dtype, counts, layout, 4, listed, asynchronous)
            crew.run("reduce_scatter", dtype, "SUM", counts, layout, 5, listed, asynchronous)
        crew.run("gather", dtype, 12, layout, 6, root, listed, asynchronous)
        crew.run("scatter", dtype, 12, layout, 7, root, listed, asynchronous)
        for table in ([[12] * 8] * 8, [[(3 * i + j) % 13 for j in range(8)] for i in range(8)]):
            crew.run("all_to_all", dtype, table, layout, 8, listed, asynchronous)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_broadcast_from_every_root(crew, asynchronous):
    for root in range(crew.size):
        for dtype in ("uint8", "float8_e5m2", "complex64"):
            crew.run("broadcast", dtype, LAYOUTS[3:], 9, root, asynchronous)


def test_large_ones(crew):
    large = [((300_000,), (1,), (0,)), ((1000, 300), (1, 2), (1, 0))]
    crew.run("all_reduce", "float32", "SUM", large, 10, False)
    crew.run("broadcast", "float64", large, 11, 0, True)
    crew.run("all_gather", "int16", [300_000], large[0], 12, True, True)
    crew.run("messages", "float32", [(0, 1, 0, 300_000), (1, 0, 0, 300_000)], large[1], 13)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_several_arrays_in_one_operation(crew, asynchronous):
    for dtype in ("int32", "bfloat16", "complex64"):
        for counts in ([12], [12, 0, 5], [1] * 20, [70_000, 12]):
            crew.run("coalesced", dtype, counts, LAYOUTS[3], 17, asynchronous)


def test_monitored_barrier(crew):
    crew.run("monitored")


def test_sends_and_recvs(crew):
    crew.run("point_to_point")


# 2 processes show it, and each imports torch, which takes seconds; torch_test.py does it on one.
@pytest.mark.torch
@pytest.mark.parametrize("crew", [2], indirect=True)
def test_every_kind_of_memory_and_of_torch(crew):
    crew.run("kinds_of_memory_and_of_torch")


def test_every_kind_of_memory(crew):
    crew.run("kinds_of_memory")


def test_wrong_arguments_are_refused_at_the_call(crew):
    crew.run("wrong_arguments")


def test_groups(crew):
    crew.run("groups", list(range(crew.size)), 14)
    crew.run("groups", list(reversed(range(crew.size))), 15)
    crew.run("groups", [crew.size - 1], 16)
