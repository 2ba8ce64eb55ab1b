"""pytest: a test on several processes.

    @pytest.mark.ranks(4)
    def test_sum():
        x = np.ones(3)
        dist.all_reduce(x)
        assert (x == 4).all()

The function runs in 4 processes that have a world, and passes if it passes on all of them. A failure
tells which rank failed, with its traceback. `ranks(2, 3, 4)` makes one test for each number.
`ranks(4, timeout=10)`: seconds or a timedelta, 60 s if not told; when they are over the failure shows where each rank
stands. `ranks(4, init=False)`: no world, only the environment that init_process_group reads.

Fixtures are set up once, in pytest's own process, before the ranks are forked from it: all ranks see
the same tmp_path. Changes that a rank makes in memory end with it.

The summary and JUnit files name the failed assertion and its rank ("rank 1 of 4: assert 3 == 4"). Frames of this
library are left out of tracebacks, unless --full-trace is given.

Captured output is shown rank by rank. With -s, and in tests that capture for themselves (with capsys, capfd or
another such fixture), output goes where it would go without ranks.
"""

import inspect
import os
import pathlib
import sys
import time
import traceback
import unittest
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from _pytest._code.code import ReprEntryNative, ReprExceptionInfo, ReprFileLocation, ReprTraceback

import tutti
from tutti._times import seconds
from tutti.multiprocessing import child, rank_stacks
from tutti.multiprocessing.errors import ProcessException
from tutti.multiprocessing.job import Job, Ticket

_TIMEOUT = 60.0
_GRACE = 5.0  # for the other ranks, once one has failed
_PARAMETER = "_ranks"
# Fixtures by which a test looks at its own output.
_CAPTURING = {"capsys", "capsysbinary", "capteesys", "capfd", "capfdbinary"}
_STREAMS = ("stdout", "stderr")


class Outcome(NamedTuple):
    """How the test went on one rank."""

    kind: str  # "passed", "skipped", "xfailed", "failed"
    text: str = ""
    when: float = 0.0
    is_consequence: bool = False  # it only tells that another rank has failed
    crash: tuple[str, int, str] | None = None  # file, line and error of the failure, where they are known


class RanksFailed(pytest.fail.Exception):  # type: ignore[misc]  # pytest is not looked into
    """A test has failed on some ranks: with all that is shown of it, and what the summary says."""

    def __init__(self, text: str, crash: tuple[str, int, str]) -> None:
        super().__init__(text, pytrace=False)
        self.crash = crash


@pytest.hookimpl(hookwrapper=True)  # type: ignore[untyped-decorator]  # pytest is not looked into
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """The summary and JUnit files take their message from the place of the crash."""
    outcome: Any = yield
    problem = call.excinfo.value if call.excinfo is not None else None
    if isinstance(problem, RanksFailed):
        entries = [ReprEntryNative([f"{problem.msg}\n"])]
        outcome.get_result().longrepr = ReprExceptionInfo(
            reprtraceback=ReprTraceback(entries, None, style="native"), reprcrash=ReprFileLocation(*problem.crash))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "ranks(n, ..., timeout=60, init=True): run the test on n processes that "
                                       "have a world of tutti.distributed, once for each n")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("ranks")
    if marker is not None and len(marker.args) > 1:
        metafunc.fixturenames.append(_PARAMETER)
        metafunc.parametrize(_PARAMETER, marker.args, ids=[f"{size} ranks" for size in marker.args])


def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("ranks")
    if marker is None:
        return
    if not isinstance(item, pytest.Function) or isinstance(item.parent, pytest.Class) and issubclass(
            item.parent.obj, unittest.TestCase):
        pytest.fail("the marker ranks is for test functions, not for unittest.TestCase", pytrace=False)
    if inspect.iscoroutinefunction(item.obj) or inspect.isasyncgenfunction(item.obj):
        pytest.fail("the marker ranks is for plain functions: an async def would not be run; make it a function that "
                    "calls asyncio.run", pytrace=False)
    if not marker.args or not all(isinstance(size, int) and size > 0 for size in marker.args):
        pytest.fail(f"ranks{marker.args}: give a number of processes, as in @pytest.mark.ranks(4)",
                    pytrace=False)
    unknown = set(marker.kwargs) - {"timeout", "init"}
    if unknown:
        pytest.fail(f"ranks: do not know {', '.join(sorted(unknown))}; there are timeout and init",
                    pytrace=False)


@pytest.hookimpl(tryfirst=True)  # type: ignore[untyped-decorator]  # pytest is not looked into
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs the body on its ranks; fixtures have been set up already."""
    marker = pyfuncitem.get_closest_marker("ranks")
    if marker is None:
        return None
    callspec = getattr(pyfuncitem, "callspec", None)
    size = marker.args[0] if callspec is None else callspec.params.get(_PARAMETER, marker.args[0])
    path, line, _ = pyfuncitem.location
    _judge(_outcomes(pyfuncitem, size, seconds(marker.kwargs.get("timeout", _TIMEOUT)),
                     marker.kwargs.get("init", True)), (path, (line or 0) + 1))
    return True


def _outcomes(item: pytest.Function, size: int, timeout: float, init: bool) -> list[Outcome]:
    with Job(size, "fork") as job:
        try:
            return _outcomes_of(job, item, timeout, init)
        finally:
            _show_output(job)


def _outcomes_of(job: Job, item: pytest.Function, timeout: float, init: bool) -> list[Outcome]:
    deadline = time.monotonic() + timeout
    late = f"was still running after {timeout:g} s"
    died: dict[int, str] = {}
    with warnings.catch_warnings():
        # Newer Pythons warn of any fork beside threads; the child only runs the test.
        warnings.simplefilter("ignore", DeprecationWarning)
        context = job.start(_rank_main, item, init)
    stacks: dict[int, str] = {}
    try:
        while not context.join(max(0.0, deadline - time.monotonic()), _GRACE):
            if time.monotonic() >= deadline:
                pids = context.pids()
                stacks = rank_stacks.asked({rank: (job.ticket.file("stack", rank), pids[rank]) for rank in context.running()},
                                           "pytest_plugin.py", "_call")
                break
    except ProcessException as problem:
        died[problem.error_index] = str(problem)
    context.end()
    outcomes = []
    for rank in range(job.ticket.size):
        try:
            outcomes.append(job.result(rank))
        except FileNotFoundError:
            if rank in stacks:
                text = f"{late}; it stood here:\n{stacks[rank]}"
                outcomes.append(Outcome("failed", text, deadline))
            elif rank in died:
                outcomes.append(Outcome("failed", died[rank]))
            else:
                text = "was ended because another rank had failed"
                outcomes.append(Outcome("failed", text, deadline, True))
    return outcomes


def _rank_main(rank: int, ticket: Ticket, item: pytest.Function, init: bool) -> None:
    """In the fork: runs the test's body and returns its outcome."""
    with rank_stacks.told_to(ticket.file("stack", rank)):
        ticket.enter(rank)
        if item.config.getoption("capture") != "no" and not _CAPTURING & set(item.fixturenames):
            _keep_output(rank, ticket)
        ticket.put_result(rank, _call(item, init))


def _keep_output(rank: int, ticket: Ticket) -> None:
    """Sends output to files of this rank. pytest captures into one file, in which the output of all ranks would mix."""
    for number, name in enumerate(_STREAMS, 1):
        with open(ticket.file(name, rank), "wb") as file:
            os.dup2(file.fileno(), number)
        setattr(sys, name, open(number, "w", buffering=1, encoding="utf-8", errors="backslashreplace",
                                closefd=False))


def _show_output(job: Job) -> None:
    """Rank by rank, to pytest."""
    for name in _STREAMS:
        for rank in range(job.ticket.size):
            file = pathlib.Path(job.ticket.file(name, rank))
            text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
            if text:
                print(f"---- rank {rank} ----", text.removesuffix("\n"), sep="\n", file=getattr(sys, name))


def _call(item: pytest.Function, init: bool) -> Outcome:
    from tutti import distributed as dist  # noqa: PLC0415: in the fork only

    names = item._fixtureinfo.argnames
    try:
        if init:
            dist.init_process_group()
        item.obj(**{name: item.funcargs[name] for name in names})
        if init and dist.is_initialized():
            dist.destroy_process_group()
    except pytest.skip.Exception as reason:
        return Outcome("skipped", str(reason))
    except pytest.xfail.Exception as reason:
        return Outcome("xfailed", str(reason))
    except BaseException as error:  # noqa: BLE001: the parent tells of it
        if not item.config.getoption("fulltrace"):
            _hide_library(error)
        shown = item.repr_failure(pytest.ExceptionInfo.from_current())
        at = getattr(shown, "reprcrash", None)
        return Outcome("failed", str(shown), time.monotonic(), child.is_consequence(error),
                       (at.path, at.lineno, at.message) if at is not None else None)
    return Outcome("passed")


def _hide_library(problem: BaseException) -> None:
    """pytest leaves out the frames of this library, if there are others. For the rest of this process."""
    package = pathlib.Path(tutti.__file__).resolve().parent  # in a build folder the files are links
    frames = [frame for frame, _ in traceback.walk_tb(problem.__traceback__)]
    ours = [frame for frame in frames if package in pathlib.Path(frame.f_code.co_filename).resolve().parents]
    if len(ours) < len(frames):
        for frame in ours:
            frame.f_globals["__tracebackhide__"] = True


def _judge(outcomes: list[Outcome], place: tuple[str, int]) -> None:
    """`place`: of the test, where that of a failure is not known."""
    failed = sorted((rank for rank, one in enumerate(outcomes) if one.kind == "failed"),
                    key=lambda rank: (outcomes[rank].is_consequence, outcomes[rank].when))
    for rank, one in enumerate(outcomes):
        if one.kind == "xfailed" and all(outcomes[other].is_consequence for other in failed):
            pytest.xfail(f"rank {rank}: {one.text}")
    if failed:
        passed = [str(rank) for rank, one in enumerate(outcomes) if one.kind == "passed"]
        pieces = [f"failed on {_list(failed)} of {len(outcomes)} ranks"
                  + (f"; passed on {', '.join(passed)}" if passed else "")]
        for rank in failed:
            one = outcomes[rank]
            if one.is_consequence and rank != failed[0]:
                pieces.append(f"---- rank {rank}, because of it ----\n{_last_error(one.text)}")
            else:
                pieces.append(f"---- rank {rank} ----\n{one.text}")
        raise RanksFailed("\n".join(pieces), _crash(outcomes, failed, place))
    for rank, one in enumerate(outcomes):
        if one.kind == "skipped":
            pytest.skip(f"rank {rank}: {one.text}")


def _crash(outcomes: list[Outcome], failed: list[int], place: tuple[str, int]) -> tuple[str, int, str]:
    """Where the first rank has failed, and the error with all ranks that have the same."""
    error = _error(outcomes[failed[0]])
    same = sorted(rank for rank in failed if _error(outcomes[rank]) == error)
    path, line, _ = outcomes[failed[0]].crash or (*place, "")
    return path, line, f"{_list(same)} of {len(outcomes)}: {error}"


def _error(outcome: Outcome) -> str:
    message = outcome.crash[2] if outcome.crash is not None else outcome.text
    return message.strip().split("\n", 1)[0].removesuffix("; it stood here:")


def _list(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))


def _last_error(text: str) -> str:
    """The line of a traceback that names the error."""
    errors = [line for line in text.splitlines() if line.startswith("E ")]
    return errors[0] if errors else text
