"""Groups of Ray on tutti: what they compute, and how they are made."""

import cases
import pytest
import ray
from conftest import LIMIT
from ray.experimental import internal_kv
from ray.util import collective


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_eight_operations(crew, size):
    crew.init("operations", size)
    for kind, dtypes in (("numpy", ("float32", "float64", "int32", "uint8")),
                         ("torch", ("float32", "float64", "bfloat16", "int64"))):
        for dtype in dtypes:
            crew.run(cases.eight_operations, size, "operations", kind, dtype, ranks=range(size))
    crew.run(cases.large, size, "operations", ranks=range(size))
    crew.destroy("operations", ranks=range(size))


def test_declared_in_the_driver(crew):
    collective.create_collective_group(crew.members[:2], 2, [1, 0], "TUTTI", "declared")
    # Ranks as declared: actor 1 is rank 0.
    assert crew.run(cases.sum_of, "declared", ranks=range(2)) == [3.0, 3.0]
    assert ray.get([member.call.remote(lambda: collective.get_rank("declared")) for member in crew.members[:2]]) == [1, 0]
    crew.destroy("declared", ranks=range(2))


def test_made_by_the_driver(crew):
    from ray.experimental.collective import create_collective_group, destroy_collective_group
    for _ in range(2):
        group = create_collective_group(crew.members[:3], backend="tutti", name="driver")
        assert crew.run(cases.sum_of, "driver", ranks=range(3)) == [6.0] * 3
        destroy_collective_group(group)


def test_a_name_again(crew):
    crew.run(cases.again_and_again, 4, "again", 20)


def test_the_first_comes_last(crew):
    started = crew.start(cases.init, 3, "late", ranks=(1, 2)) + crew.start(cases.late, 3, "late", 1.0, ranks=(0,))
    ray.get(started, timeout=LIMIT)
    assert crew.run(cases.sum_of, "late", ranks=range(3)) == [6.0] * 3
    crew.destroy("late", ranks=range(3))


def test_an_address_that_is_out_of_date(crew):
    """A rank 0 that was killed while it made the group has left its address."""
    key = f"{ray.get_runtime_context().namespace}/stale"
    internal_kv._internal_kv_put(key, b"job 1 127.0.0.1", overwrite=True, namespace="tutti")
    ray.get(crew.start(cases.init, 2, "stale", ranks=(1,)) + crew.start(cases.late, 2, "stale", 0.5, ranks=(0,)), timeout=LIMIT)
    assert crew.run(cases.sum_of, "stale", ranks=range(2)) == [3.0] * 2
    crew.destroy("stale", ranks=range(2))


def test_other_threads(crew):
    names = ["thread 0", "thread 1", "thread 2"]
    for name in names:
        crew.init(name, 2)
    crew.run(cases.from_threads, 2, names, ranks=range(2))
    for name in names:
        crew.destroy(name, ranks=range(2))


def test_groups_that_overlap(crew):
    crew.init("all")
    crew.init("two", 2)
    assert crew.run(cases.sum_of, "all") == [10.0] * 4
    assert crew.run(cases.sum_of, "two", ranks=range(2)) == [3.0] * 2
    crew.destroy("all")
    assert crew.run(cases.sum_of, "two", ranks=range(2)) == [3.0] * 2
    crew.destroy("two", ranks=range(2))
