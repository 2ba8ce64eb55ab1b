"""Tests on ranks that are no plain functions, and those that say themselves that they fail."""

from xml.etree import ElementTree

import pytest

import ranks
import stacks

LIMIT = 50
INNER = """
import pytest, tutti.distributed as dist

@pytest.mark.ranks(2)
async def test_async():
    assert False

@pytest.mark.ranks(2)
async def test_async_generator():
    yield
    assert False

@pytest.mark.ranks(2)
def test_all_expect_it():
    pytest.xfail("not built")

@pytest.mark.ranks(2)
def test_one_expects_it():
    if dist.get_rank() == 1:
        pytest.xfail("not built")
    dist.barrier()

@pytest.mark.ranks(2)
def test_one_fails_by_itself():
    if dist.get_rank() == 1:
        pytest.xfail("not built")
    assert False, "wrong"
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """By the name of the test: (tag, message, text)."""
    folder = tmp_path_factory.mktemp("inner")
    (folder / "inner_test.py").write_text(INNER)
    command = [*ranks.PYTEST, "--strict-markers", "--junitxml=results.xml", "inner_test.py"]
    done = stacks.run(command, LIMIT, cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    cases = ElementTree.parse(folder / "results.xml").getroot().iter("testcase")
    return {case.get("name"): (case[0].tag, case[0].get("message"), case[0].text, case[0].get("type"))
            if len(case) else ("passed", "", "", "") for case in cases}


@pytest.mark.parametrize("name", ["test_async", "test_async_generator"])
def test_what_would_not_be_run_is_refused(results, name):
    kind, _, text, _ = results[name]
    assert kind in ("failure", "error") and "an async def would not be run" in text


@pytest.mark.parametrize(("name", "rank"), [("test_all_expect_it", 0), ("test_one_expects_it", 1)])
def test_expected_failures_are_told_as_such(results, name, rank):
    kind, message, _, which = results[name]
    assert kind == "skipped" and which == "pytest.xfail" and message == f"rank {rank}: not built"


def test_another_ranks_own_failure_counts(results):
    kind, _, text, _ = results["test_one_fails_by_itself"]
    assert kind == "failure" and "failed on rank 0 of 2 ranks" in text and "wrong" in text
