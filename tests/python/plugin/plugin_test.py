"""@pytest.mark.ranks: tests that run on several processes."""

import array
import os
import xml.etree.ElementTree as ElementTree

import pytest

import ranks
import stacks
import tutti.distributed as dist

LIMIT = 60

# One session runs all of it: each of these tests is looked at by one of ours.
INNER = """
import os, signal, time, unittest
import array
import pytest
import tutti.distributed as dist

@pytest.mark.ranks(2)
def test_sum(tmp_path):
    x = array.array("d", [1.0, 2.0])
    dist.all_reduce(x)
    assert list(x) == [2.0, 4.0]
    (tmp_path / str(dist.get_rank())).touch()   # a folder that all ranks share
    dist.barrier()
    assert len(list(tmp_path.iterdir())) == 2

def test_without_mark():
    assert not dist.is_initialized()

@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("word", ["a", "b"])
def test_sizes(word, request):
    assert f"{dist.get_world_size()} ranks" in request.node.name

@pytest.mark.ranks(3)
def test_wrong():
    value = dist.get_rank() * 10
    if dist.get_rank() == 1:
        assert value == 11
    dist.barrier()

@pytest.mark.ranks(2)
def test_misuses():
    dist.broadcast(array.array("d", [1.0]), src=7)

@pytest.mark.ranks(2)
def test_talks():
    for turn in range(100):
        print("hello", turn, "from", dist.get_rank())
        os.write(2, b"error %d of %d\\n" % (turn, dist.get_rank()))
    assert dist.get_rank() == 0

@pytest.mark.ranks(2)
def test_looks_at_its_own_output(capsys):
    print("hello from", dist.get_rank())
    assert capsys.readouterr().out == f"hello from {dist.get_rank()}\\n"

@pytest.mark.ranks(2)
def test_dies():
    if dist.get_rank() == 1:
        print("last words")
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()

@pytest.mark.ranks(2)
def test_is_left_early():
    if dist.get_rank() == 1:
        os._exit(0)
    dist.barrier()

@pytest.mark.ranks(2)
def test_is_interrupted():
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGINT)
    dist.barrier()

def wait_for_godot():
    time.sleep(100)

@pytest.mark.ranks(2, timeout=10)
def test_hangs():
    if dist.get_rank() == 1:
        wait_for_godot()

@pytest.mark.ranks(2)
def test_skips():
    pytest.skip("not today")

@pytest.mark.ranks(2)
@pytest.mark.xfail(reason="known", strict=True)
def test_expected_to_fail():
    assert False

@pytest.mark.ranks(2, init=False)
def test_own_world():
    assert not dist.is_initialized()
    dist.init_process_group("gloo")
    assert dist.get_rank() == int(os.environ["RANK"])

@pytest.mark.ranks
def test_no_number():
    pass

@pytest.mark.ranks("4")
def test_no_whole_number():
    pass

@pytest.mark.ranks(2, size=3)
def test_unknown_option():
    pass

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

class TestOld(unittest.TestCase):
    @pytest.mark.ranks(2)
    def test_method(self):
        pass
"""


def run_inner(folder, *options):
    """What pytest said."""
    (folder / "inner_test.py").write_text(INNER)
    # Wide enough for the lines of the summary.
    done = stacks.run([*ranks.PYTEST, "--strict-markers", *options, "inner_test.py"], LIMIT, cwd=folder,
                      env=dict(os.environ, COLUMNS="200"))
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """By the name of the test: (passed, skipped, pytest.xfail, failure or error; the text that is shown, its output)."""
    folder = tmp_path_factory.mktemp("inner")
    run_inner(folder, "--junitxml=results.xml", "-o", "junit_logging=all")
    found = {}
    for case in ElementTree.parse(folder / "results.xml").getroot().iter("testcase"):
        kind, text = "passed", ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                kind = child.tag if child.get("type") != "pytest.xfail" else "pytest.xfail"
                text = child.get("message") if child.tag == "skipped" else child.text
        streams = (case.findtext("system-out") or "") + (case.findtext("system-err") or "")
        found[case.get("name")] = kind, text, streams
    return found


@pytest.mark.parametrize("name", ["test_sum", "test_without_mark", "test_own_world", "test_looks_at_its_own_output"])
def test_passes_when_all_ranks_pass(results, name):
    assert results[name][0] == "passed"


def test_several_numbers_of_ranks(results):
    sizes = {name: one[0] for name, one in results.items() if name.startswith("test_sizes")}
    assert len(sizes) == 6 and set(sizes.values()) == {"passed"}, results


def test_a_failure_names_its_rank(results):
    kind, text, _ = results["test_wrong"]
    assert kind == "failure"
    assert "failed on ranks 1, " in text and " of 3 ranks" in text and "---- rank 1 ----" in text
    assert "assert 10 == 11" in text
    # Whose failure is a consequence is told in a line, without a traceback.
    assert "---- rank 0, because of it ----" in text and text.count("def test_wrong") == 1


def test_the_summary_and_junit_name_the_assertion(tmp_path):
    """And frames of the library are hidden, unless they are asked for."""
    said = run_inner(tmp_path, "-k", "test_wrong or test_dies or test_misuses", "--junitxml=results.xml")
    assert "FAILED inner_test.py::test_misuses - ranks 0, 1 of 2: " in said and "root" in said
    assert "dist.broadcast" in said and "collectives.py" not in said
    assert "collectives.py" in run_inner(tmp_path, "-k", "test_misuses", "--full-trace")
    assert "FAILED inner_test.py::test_wrong - rank 1 of 3: assert 10 == 11\n" in said
    assert "FAILED inner_test.py::test_dies - rank 1 of 2: process 1 terminated with signal SIGKILL\n" in said
    cases = ElementTree.parse(tmp_path / "results.xml").getroot().iter("testcase")
    messages = {case.get("name"): failure.get("message") for case in cases for failure in case.iter("failure")}
    assert messages["test_wrong"] == "rank 1 of 3: assert 10 == 11"


@pytest.mark.full
def test_workers_of_xdist_tell_the_same(tmp_path):
    pytest.importorskip("xdist", reason="pytest-xdist is not installed (./dev deps python)")
    said = run_inner(tmp_path, "-k", "test_wrong", "-n", "1")
    assert "FAILED inner_test.py::test_wrong - rank 1 of 3: assert 10 == 11\n" in said
    assert "---- rank 1 ----" in said and said.count("def test_wrong") == 1


def test_output_of_ranks_is_captured(results):
    kind, text, output = results["test_talks"]
    assert kind == "failure" and "failed on rank 1 of 2 ranks; passed on 0" in text
    for line in ("hello {} from {}", "error {} of {}"):
        assert "\n".join(f"---- rank {rank} ----\n" + "\n".join(line.format(turn, rank) for turn in range(100))
                         for rank in range(2)) in output
    assert "---- rank 1 ----\nlast words\n" in results["test_dies"][2]


@pytest.mark.full
def test_output_goes_where_the_options_say(tmp_path):
    said = run_inner(tmp_path, "--capture=sys", "-k", "test_talks")
    assert "---- rank 0 ----\nhello 0 from 0\n" in said and "---- rank 1 ----\nhello 0 from 1\n" in said
    said = run_inner(tmp_path, "-s", "--tb=no", "-k", "test_talks")
    assert "---- rank 0 ----" not in said and said.count("hello") == 200


@pytest.mark.parametrize(("name", "parts"), [
    ("test_dies", ["---- rank 1 ----\nprocess 1 terminated with signal SIGKILL"]),
    ("test_is_left_early", ["rank 1 ----\nprocess 1 terminated with exit code 0 before its function had returned"]),
    ("test_is_interrupted", ["---- rank 1 ----", "KeyboardInterrupt"]),
    ("test_one_fails_by_itself", ["failed on rank 0 of 2 ranks", "wrong"])])  # though rank 1 expects a failure
def test_the_end_of_one_rank_is_told(results, name, parts):
    kind, text, _ = results[name]
    assert kind == "failure" and all(part in text for part in parts)


def test_a_hang_shows_where_each_rank_stands(results):
    kind, text, _ = results["test_hangs"]
    assert kind == "failure" and "failed on rank 1 of 2 ranks; passed on 0" in text
    assert "was still running after 10 s; it stood here:" in text
    assert text.index("in wait_for_godot") < text.index("in test_hangs")
    assert "_bootstrap" not in text


def test_skips_and_expected_failures(results):
    assert results["test_skips"][0] == "skipped" and "rank 0: not today" in results["test_skips"][1]
    assert results["test_expected_to_fail"][0] == "pytest.xfail" and "known" in results["test_expected_to_fail"][1]


@pytest.mark.parametrize(("name", "rank"), [("test_all_expect_it", 0), ("test_one_expects_it", 1)])
def test_tests_that_say_themselves_that_they_fail(results, name, rank):
    assert results[name][:2] == ("pytest.xfail", f"rank {rank}: not built")


@pytest.mark.parametrize(("name", "problem"), [
    ("test_no_number", "give a number of processes"), ("test_no_whole_number", "give a number of processes"),
    ("test_unknown_option", "do not know size"), ("test_method", "not for unittest.TestCase"),
    ("test_async", "an async def would not be run"), ("test_async_generator", "an async def would not be run")])
def test_wrong_marks_are_told(results, name, problem):
    kind, text, _ = results[name]
    assert kind in ("failure", "error") and problem in text


@pytest.mark.ranks(3)
def test_runs_on_all_ranks_itself():
    ones = array.array("d", [1.0, dist.get_rank()])
    dist.all_reduce(ones)
    assert list(ones) == [3.0, 3.0] and dist.get_world_size() == 3
