"""Reduce ops of the caller's in tutti.distributed, on several numbers of processes."""

import pathlib

import pytest

import ranks

FOLDER = pathlib.Path(__file__).parent


@pytest.fixture(scope="module", params=ranks.sizes(others=(5, 1)))
def crew(request):
    with ranks.Crew(request.param, FOLDER / "dist_user_op_cases") as made:
        yield made


@pytest.fixture(scope="module", params=ranks.sizes(others=(5, 1)))
def async_crew(request):
    with ranks.Crew(request.param, FOLDER / "dist_user_op_async_cases") as made:
        yield made


@pytest.mark.parametrize("case", ["in_order", "in_blocks", "of_any_kind", "on_threads", "wrong"])
def test_case(crew, case):
    crew.run(case)


@pytest.mark.parametrize("case", ["values", "threads", "dropped", "dropped_by_exceptions", "cycles", "failures",
                                  "odd_failures", "callbacks_that_wait", "coalesced"])
def test_async_case(async_crew, case):
    async_crew.run(case)


@pytest.mark.torch
def test_of_torch(crew):
    crew.run("of_torch")


@pytest.mark.torch
def test_async_of_torch(async_crew):
    async_crew.run("of_torch")
