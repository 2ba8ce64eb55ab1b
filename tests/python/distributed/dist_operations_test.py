"""tutti.distributed on 1 to 8 processes."""

import pathlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ranks

crew = ranks.crew_of(pathlib.Path(__file__).with_name("dist_cases"))


@pytest.mark.parametrize("case", [
    "beyond_torch", "memory_of_the_host", "to_oneself", "neighbors", "works", "groups", "mesh", "mesh_order", "multigpu", "coalesced",
    "missing_rank", "roots_without_rank_0", "wrong_calls", "nobody_is_minus_one", "objects_and_lists", "splits_on_some",
    "shapes", "splits_of_any_kind", "methods", "several_as_one", "timeouts",
    "probes"])
def test_case(crew, case):
    crew.run(case)


def test_objects(crew):
    crew.run("objects")


@settings(max_examples=15, deadline=None, print_blob=True,
          suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1))
def test_random_programs(crew, seed):
    crew.run("property_case", seed)
