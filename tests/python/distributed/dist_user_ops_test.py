"""Reduce ops of the caller's in tutti.distributed, on several numbers of processes."""

import pathlib

import pytest

import ranks

crew, async_crew = [ranks.crew_of(pathlib.Path(__file__).with_name(cases), ranks.sizes(others=(5, 1)))
                    for cases in ("dist_user_op_cases", "dist_user_op_async_cases")]


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
