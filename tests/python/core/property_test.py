"""Random shapes, strides, dtypes, splits, groups and orders: the ranks agree with NumPy."""

import math
import pathlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from operation_values import DTYPES, ops_of

import ranks

prove = settings(max_examples=30, deadline=None, derandomize=False, print_blob=True,
                 suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
dtypes = st.sampled_from(DTYPES)
seeds = st.integers(0, 1000)
counts = st.integers(0, 40)
steps = st.sampled_from([1, 1, 2, 3, -1, -2])

crew = ranks.crew_of(pathlib.Path(__file__).with_name("operation_cases"), ranks.sizes(3, others=(2, 5)))


@st.composite
def layouts(draw, count=None):
    """A shape (of so many elements), with gaps, backwards, transposed."""
    if count is None:
        shape = draw(st.lists(st.integers(0, 5), max_size=5))
    else:
        divisor = draw(st.sampled_from([n for n in range(1, count + 1) if count % n == 0] or [1]))
        shape = [divisor, count // divisor]
    return (tuple(shape), tuple(draw(steps) for _ in shape),
            tuple(draw(st.permutations(range(len(shape))))))


@st.composite
def reductions(draw):
    """dtype and op, and for each of two kinds of ranks another layout of as many elements."""
    dtype = draw(dtypes)
    first = draw(layouts())
    other = draw(layouts(math.prod(first[0])))
    return dtype, draw(st.sampled_from(ops_of(dtype))), [first, other]


@prove
@given(case=reductions(), seed=seeds, root=st.integers(0, 99), asynchronous=st.booleans())
def test_reductions(crew, case, seed, root, asynchronous):
    dtype, op, both = case
    crew.run("all_reduce", dtype, op, both, seed, asynchronous)
    crew.run("reduce", dtype, op, both, seed, root % crew.size, asynchronous)
    crew.run("broadcast", dtype, both, seed, root % crew.size, asynchronous)
    crew.run("scan", dtype, op, both, seed, root % 2 == 1, asynchronous)


@prove
@given(dtype=dtypes, blocks=st.lists(counts, min_size=1, max_size=5), seed=seeds, data=st.data(),
       root=st.integers(0, 99), listed=st.booleans(), asynchronous=st.booleans())
def test_blocks(crew, dtype, blocks, seed, data, root, listed, asynchronous):
    layout = data.draw(layouts(blocks[0]))
    crew.run("all_gather", dtype, blocks, layout, seed, listed, asynchronous)
    crew.run("reduce_scatter", dtype, data.draw(st.sampled_from(ops_of(dtype))), blocks, layout,
             seed, listed, asynchronous)
    crew.run("gather", dtype, blocks[0], layout, seed, root % crew.size, listed, asynchronous)
    crew.run("scatter", dtype, blocks[0], layout, seed, root % crew.size, listed, asynchronous)


@prove
@given(dtype=dtypes, table=st.lists(st.lists(counts, min_size=5, max_size=5), min_size=5, max_size=5),
       seed=seeds, data=st.data(), listed=st.booleans(), asynchronous=st.booleans())
def test_exchanges(crew, dtype, table, seed, data, listed, asynchronous):
    crew.run("all_to_all", dtype, table, data.draw(layouts(table[0][0])), seed, listed, asynchronous)


@prove
@given(dtype=dtypes, seed=seeds, data=st.data(),
       sends=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3), counts),
                        min_size=1, max_size=12))
def test_messages(crew, dtype, seed, data, sends):
    crew.run("messages", dtype, sends, data.draw(layouts(sends[0][3])), seed)


@prove
@given(members=st.lists(st.integers(0, 99), min_size=1, max_size=6), seed=seeds)
def test_groups(crew, members, seed):
    crew.run("groups", members, seed)
