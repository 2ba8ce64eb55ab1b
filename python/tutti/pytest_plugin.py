"""pytest: a test on several processes.

    @pytest.mark.ranks(4)
    def test_sum():
        x = np.ones(3)
        dist.all_reduce(x)
        assert (x == 4).all()

The function runs in 4 processes that have a world, and passes if it passes on all of them. A failure
tells which rank failed, with its traceback. `ranks(2, 3, 4)` makes one test for each number.
`ranks(4, timeout=10)`: seconds, 60 if not told; when they are over the failure shows where each rank
stands. `ranks(4, init=False)`: no world, only the environment that init_process_group reads.

Fixtures are set up once, in pytest's own process, before the ranks are forked from it: all ranks see
the same tmp_path. Changes that a rank makes in memory end with it.

Captured output is shown rank by rank. With -s, and in tests that capture for themselves (capsys, capfd and their
kin), output goes where it would go without ranks.
"""

import faulthandler
import inspect
import os
import pathlib
import signal
import sys
import time
import unittest
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tutti.multiprocessing import child
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
    _judge(_outcomes(pyfuncitem, size, marker.kwargs.get("timeout", _TIMEOUT),
                     marker.kwargs.get("init", True)))
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
                stacks = dict(_stacks(job, context.running(), context.pids()))
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
    with open(ticket.file("stack", rank), "w", encoding="utf-8") as stack:
        faulthandler.register(signal.SIGUSR1, file=stack)
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
        text = str(item.repr_failure(pytest.ExceptionInfo.from_current()))
        return Outcome("failed", text, time.monotonic(), child.is_consequence(error))
    return Outcome("passed")


def _stacks(job: Job, ranks: list[int], pids: list[int]) -> Iterator[tuple[int, str]]:
    """Where these ranks stand."""
    for rank in ranks:
        os.kill(pids[rank], signal.SIGUSR1)
    until = time.monotonic() + 1
    for rank in ranks:
        file = pathlib.Path(job.ticket.file("stack", rank))
        # The last line is that of the outermost call, which every process has: the fork's.
        while "in _bootstrap" not in file.read_text(encoding="utf-8") and time.monotonic() < until:
            time.sleep(0.01)
        yield rank, _without_machinery(file.read_text(encoding="utf-8"))


def _without_machinery(stack: str) -> str:
    """Without the calls between the fork and the test."""
    lines = stack.splitlines()
    own = [at for at, line in enumerate(lines) if line.endswith(" in _call") and "pytest_plugin" in line]
    return "\n".join(lines[:own[0]] if own else lines)


def _judge(outcomes: list[Outcome]) -> None:
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
        pytest.fail("\n".join(pieces), pytrace=False)
    for rank, one in enumerate(outcomes):
        if one.kind == "skipped":
            pytest.skip(f"rank {rank}: {one.text}")


def _list(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else "ranks " + ", ".join(map(str, ranks))


def _last_error(text: str) -> str:
    """The line of a traceback that names the error."""
    errors = [line for line in text.splitlines() if line.startswith("E ")]
    return errors[0] if errors else text
