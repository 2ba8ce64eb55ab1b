"""spawn and start_processes: torch.multiprocessing's behaviour."""

import contextlib
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import ranks
import stacks
import tutti.multiprocessing as mp
from process_cases import (ENDS, LONG, cause_comes_second, end, end_well, fail_if, ignore_sigterm, leave_late, note, noted, put,
                           wait_for, wait_for_go)

METHODS = ["spawn", "fork", "forkserver"]
PATHS = [os.path.dirname(__file__)]  # where programs of their own find process_cases


def gone(folder):
    """Whether all processes that noted themselves have ended."""
    return all(stacks.state(pid) in "ZX" for pid in noted(folder))


def await_gone(folder):
    until = time.monotonic() + LONG
    try:
        while not gone(folder):
            assert time.monotonic() < until, stacks.end(*noted(folder))
            time.sleep(0.01)
    finally:
        for pid in noted(folder):
            if stacks.state(pid) not in "ZX":
                os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("method", METHODS)
def test_each_process_gets_its_index(method, tmp_path):
    assert mp.start_processes(note, (str(tmp_path),), nprocs=3, start_method=method) is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["0", "1", "2"]
    pids = {file.read_text() for file in tmp_path.iterdir()}
    assert len(pids) == 3 and str(os.getpid()) not in pids


@pytest.mark.parametrize("method", METHODS)
def test_first_exception_ends_the_rest_and_shows_its_traceback(method, tmp_path):
    begin = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException) as caught:
        mp.start_processes(fail_if, (1, str(tmp_path)), nprocs=3, start_method=method)
    assert time.monotonic() - begin < LONG
    error = caught.value
    assert error.error_index == 1
    assert "Process 1 terminated with the following error" in str(error)
    assert "no coffee on 1" in error.msg and "in fail_if" in error.msg
    assert error.error_pid == error.pid == int((tmp_path / "1").read_text())
    assert gone(tmp_path)


@pytest.mark.parametrize("how, code, name", [("SIGKILL", -signal.SIGKILL, "SIGKILL"), ("sys.exit number", 5, None)])
def test_signal_is_named(how, code, name, tmp_path):
    with pytest.raises(mp.ProcessExitedException, match=f"process 1 terminated with {ENDS[how][1]}") as caught:
        mp.spawn(end, (how, str(tmp_path)), nprocs=2)
    assert (caught.value.error_index, caught.value.exit_code, caught.value.signal_name) == (1, code, name)
    assert gone(tmp_path)


def check_end(how, method, folder):
    helper = folder / "helper"
    try:
        with pytest.raises(mp.ProcessException, match=ENDS[how][1]) as caught:
            mp.start_processes(end, (how, str(folder)), nprocs=2, start_method=method)
        assert caught.value.error_index == 1
        assert not helper.exists() or stacks.state(int(helper.read_text())) not in "ZX", "shows nothing"
    finally:
        if helper.exists():
            os.kill(int(helper.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("how", ENDS)
def test_every_end_but_success_is_told(how, tmp_path):
    check_end(how, "fork", tmp_path)


# With a new Python each: one is tried on the other methods, and by rotation the rest.
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("how", ["interrupt raised", *ranks.one_by_rotation(sorted(ENDS.keys() - {"interrupt raised"}))])
def test_every_end_but_success_is_told_of_other_processes(how, method, tmp_path):
    check_end(how, method, tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_other_ways_to_end_well(method, tmp_path):
    mp.start_processes(end_well, (str(tmp_path),), nprocs=3, start_method=method)
    assert len(noted(tmp_path)) == 3


def test_an_end_is_told_where_standard_streams_are_closed(script, tmp_path):
    """What the process prints goes nowhere, and not into the memory that tells whether it has returned."""
    path = script("""
import os, sys
import tutti.multiprocessing as mp
def work(index):
    for stream in (0, 1, 2):
        try:
            os.write(stream, b"x" * 100)
        except OSError:
            pass
    os._exit(0)
if __name__ == "__main__":
    try:
        mp.spawn(work, nprocs=2)
        said = "returned"
    except mp.ProcessExitedException as problem:
        said = str(problem)
    open(sys.argv[1], "w").write(said)
""")
    assert stacks.run(["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', sys.executable, path, tmp_path / "said"]).returncode == 0
    assert "before its function had returned" in (tmp_path / "said").read_text()


def test_an_exit_while_the_main_module_is_imported_is_told(script):
    """A script without `if __name__ == "__main__"`, which ends well before its function is called."""
    path = script("""
import sys
import tutti.multiprocessing as mp
def work(index):
    pass
if __name__ != "__main__":  # in the new process
    sys.exit(0)
try:
    mp.spawn(work, nprocs=1)
except mp.ProcessExitedException as problem:
    print(problem, problem.exit_code)
""")
    assert stacks.said(path) == "process 0 terminated with exit code 0 before its function had returned 0\n"


def test_where_exit_codes_are_unknown_the_end_of_the_function_counts(tmp_path):
    assert stacks.said("-c", f"""
import signal, sys
sys.path[:0] = {PATHS!r}
import process_cases
import tutti.multiprocessing as mp
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
mp.start_processes(process_cases.note, ({str(tmp_path)!r},), nprocs=2, start_method="fork")
try:
    mp.start_processes(process_cases.exit_if, (1,), nprocs=2, start_method="fork")
except mp.ProcessExitedException as problem:
    print(problem.error_index, problem)
""") == "1 process 1 terminated with an unknown exit code (SIGCHLD is ignored) before its function had returned\n"


@pytest.mark.parametrize("error", [
    mp.ProcessRaisedException("trace", 2, 77), mp.ProcessExitedException("died", 1, 78, -9, "SIGKILL")])
def test_exceptions_travel(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and vars(again) == vars(error)
    assert isinstance(error, mp.ProcessException) and str(again) == str(error)


def test_without_join_there_is_a_context(tmp_path):
    context = mp.spawn(fail_if, (5, str(tmp_path)), nprocs=2, join=False, daemon=True)
    assert isinstance(context, mp.ProcessContext)
    assert len(set(context.pids())) == 2 and len(context.processes) == len(context.error_files) == 2
    assert all(process.daemon for process in context.processes)
    assert context.join(timeout=0.01) is False
    wait_for(tmp_path, 2)
    os.kill(context.pids()[1], signal.SIGTERM)
    with pytest.raises(mp.ProcessExitedException, match="SIGTERM"):
        while not context.join(timeout=LONG):
            pass
    assert context.join() is True  # when all is over it may be asked again
    assert gone(tmp_path)


def test_who_needs_longer_has_the_grace_period(tmp_path):
    context = mp.start_processes(leave_late, (str(tmp_path),), nprocs=2, join=False)
    with pytest.raises(mp.ProcessRaisedException, match="first"):
        while not context.join(grace_period=LONG):
            pass
    assert (tmp_path / "left").exists()  # it was not ended


def test_who_does_not_listen_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["tutti.multiprocessing.spawn"], "_BEFORE_KILL", 0.2)
    with pytest.raises(mp.ProcessRaisedException, match="first"):
        mp.spawn(ignore_sigterm, (str(tmp_path),), nprocs=2)
    assert gone(tmp_path)


def test_a_consequence_is_not_blamed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["tutti.multiprocessing.spawn"], "_FOR_THE_CAUSE", LONG)
    context = mp.start_processes(cause_comes_second, (str(tmp_path),), nprocs=2, join=False)
    context.processes[0].join(LONG)
    (tmp_path / "go").touch()
    with pytest.raises(mp.ProcessRaisedException, match="the cause") as caught:
        while not context.join():
            pass
    assert caught.value.error_index == 1


def test_queues_and_everything_else_of_multiprocessing():
    queue = mp.get_context("spawn").Queue()
    mp.spawn(put, (queue,), nprocs=2)
    assert sorted(queue.get(timeout=LONG) for _ in range(2)) == [(0, False), (1, False)]
    import multiprocessing
    for name in multiprocessing.__all__:
        assert getattr(mp, name) is getattr(multiprocessing, name)
    assert mp.shared_memory.SharedMemory and mp.connection.wait
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = mp.no_such_thing


def test_another_start_method_warns(tmp_path):
    with pytest.warns(FutureWarning, match="start_processes"):
        mp.spawn(note, (str(tmp_path),), start_method="fork")
    assert (tmp_path / "0").exists()
    with pytest.raises(ValueError, match="nprocs"):
        mp.spawn(note, (str(tmp_path),), nprocs=0)
    with pytest.warns(FutureWarning, match="ProcessContext"):
        assert isinstance(mp.SpawnContext([], []), mp.ProcessContext)


def test_functions_without_a_name_are_sent_whole():
    # The main module of -c is, like a notebook's, none that another process could import.
    assert stacks.said("-c", """
import tutti.multiprocessing as mp
class Point:
    def __init__(self, x): self.x = x
def outer(factor):
    return lambda index, queue, point: queue.put((index, factor * point.x))
queue = mp.get_context("spawn").Queue()
mp.spawn(outer(7), (queue, Point(6)), nprocs=2)
print(sorted(queue.get(timeout=20) for _ in range(2)))
""") == "[(0, 42), (1, 42)]\n"


def test_without_cloudpickle_the_error_says_what_to_do():
    done = stacks.python("-c", """
import sys
sys.modules["cloudpickle"] = None  # as if it were not installed
import tutti.multiprocessing as mp
mp.spawn(lambda index: None)
""")
    assert done.returncode == 1 and "pip install cloudpickle" in done.stderr


@contextlib.contextmanager
def program(folder, starts, **options):
    """A program of its own, which has started two processes, and is killed at the end."""
    source = f"""
import sys, threading, time
sys.path[:0] = {PATHS!r}
import process_cases
import tutti.multiprocessing as mp
folder = {str(folder)!r}
{starts}"""
    with subprocess.Popen([sys.executable, "-c", source], **options) as parent:
        try:
            wait_for(folder, 2)
            yield parent
        finally:
            parent.kill()


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_ctrl_c_ends_the_processes_and_is_the_parents(send, tmp_path):
    """At the terminal it goes to all processes of the group; the functions end by it, too."""
    starts = "mp.spawn(process_cases.fail_if, (5, folder), nprocs=2)"
    with program(tmp_path, starts, stderr=subprocess.PIPE, text=True, start_new_session=True) as parent:
        send(parent.pid, signal.SIGINT)
        _, problem = parent.communicate(timeout=LONG)
    assert parent.returncode == -signal.SIGINT, problem
    assert problem.rstrip().endswith("KeyboardInterrupt") and "ProcessRaised" not in problem
    assert gone(tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_processes_end_with_a_killed_parent(method, tmp_path):
    with program(tmp_path, f"mp.start_processes(process_cases.stay, (folder,), nprocs=2, start_method={method!r})"):
        pass
    await_gone(tmp_path)


@pytest.mark.parametrize("method", METHODS)
def test_processes_outlive_the_thread_that_has_started_them(method, tmp_path):
    started = []

    def start():
        started.append(mp.start_processes(wait_for_go, (str(tmp_path),), nprocs=2, join=False, start_method=method))
        wait_for(tmp_path, 2)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(2 * LONG)
    [context] = started
    # join() returns a moment before the kernel's thread is gone, and the signal comes with that.
    until = time.monotonic() + LONG
    while pathlib.Path(f"/proc/self/task/{thread.native_id}").exists():
        assert time.monotonic() < until
        time.sleep(0.005)
    (tmp_path / "go").write_text("")
    while not context.join(LONG):
        pass
    assert [process.exitcode for process in context.processes] == [0, 0]


@pytest.mark.parametrize("method", METHODS)
def test_processes_of_another_thread_end_with_a_killed_parent(method, tmp_path):
    with program(tmp_path, f"""
thread = threading.Thread(target=mp.start_processes, args=(process_cases.stay, (folder,)),
                          kwargs=dict(nprocs=2, start_method={method!r}, join=False))
thread.start()
thread.join()
time.sleep(60)
"""):
        assert not gone(tmp_path)
    await_gone(tmp_path)


def test_a_process_that_begins_after_its_parents_death_ends(tmp_path):
    source = f"""
import os, sys, time
sys.path[:0] = {PATHS!r}
import process_cases
from tutti.multiprocessing import child
from tutti.multiprocessing.returned import Returned
from tutti.multiprocessing.shipping import Shipped
parent = os.getpid()
if os.fork() != 0:
    os._exit(0)
while os.getppid() == parent:
    time.sleep(0.005)
process_cases.note(0, {str(tmp_path)!r})
child.main(0, parent, Shipped((process_cases.stay, ({str(tmp_path)!r},))), {str(tmp_path / "error")!r}, Returned(1))
"""
    # Its exit status is fetched last: till then its number is in use, and says nothing.
    with subprocess.Popen([sys.executable, "-c", source]) as parent:
        wait_for(tmp_path, 1)
        assert stacks.state(parent.pid) == "Z"
        await_gone(tmp_path)
