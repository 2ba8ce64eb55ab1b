"""Reduce ops of the caller's in tutti.distributed, on several numbers of processes."""

import pathlib

import pytest

import ranks

FOLDER = pathlib.Path(__file__).parent


def crew_of(cases):
    @pytest.fixture(scope="module", params=ranks.sizes(others=(5, 1)))
    def crew(request):
        with ranks.Crew(request.param, FOLDER / cases) as made:
            yield made
    return crew


crew, async_crew = crew_of("dist_user_op_cases"), crew_of("dist_user_op_async_cases")


@pytest.mark.parametrize("case", ["in_order", "in_blocks", "of_any_kind", "on_threads", "wrong"])
def test_case(crew, case):
    crew.run(case)


@pytest.mark.parametrize("case", ["values", "threads", "dropped", "dropped_by_exceptions", "cycles", "failures",
                                  "odd_failures", "callbacks_that_wait", "coalesced"])
def test_async_case(async_crew, case):
    async_crew.run(case)


@pytest.mark.torch
def test_of_torch(crew, async_crew):
    crew.run("of_torch")
    async_crew.run("of_torch")
