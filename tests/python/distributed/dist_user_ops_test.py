"""Reduce ops of the caller's in tutti.distributed, and their Works, on several numbers of processes."""

import pathlib

import pytest

import ranks

crew = ranks.crew_of(pathlib.Path(__file__).with_name("dist_user_op_cases"), ranks.sizes(others=(5, 1)))


@pytest.mark.parametrize("case", ["forms", "in_blocks", "of_any_kind", "on_threads", "wrong", "values", "threads", "dropped",
                                  "dropped_by_exceptions", "cycles", "failures", "odd_failures", "callbacks_that_wait",
                                  "coalesced", pytest.param("of_torch", marks=pytest.mark.torch)])
def test_case(crew, case):
    crew.run(case)
