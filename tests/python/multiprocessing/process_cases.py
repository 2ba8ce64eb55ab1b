"""What processes do in the tests of tutti.multiprocessing. They import this, and not pytest with the tests."""

import array
import faulthandler
import os
import pathlib
import signal
import sys
import time

import tutti.distributed as dist
import tutti.multiprocessing as mp

LONG = 30.0  # seconds; nothing of it is waited for when all is well


def note(index, folder):
    (pathlib.Path(folder) / f"{index}").write_text(str(os.getpid()))


def fail_if(index, who, folder):
    note(index, folder)
    if index == who:
        raise ValueError(f"no coffee on {index}")
    time.sleep(LONG)


def exit_if(index, who):
    if index == who:
        sys.exit(7)


class Stop(BaseException):
    """No Exception, as asyncio.CancelledError is."""


class Unpicklable(Exception):
    """Neither it nor what it holds can be sent; its code is of another library's."""

    code = ["no", "hash"]

    def __init__(self):
        super().__init__(lambda: None)

    def __reduce__(self):
        raise TypeError("not to be sent")


def _raise(error):
    raise error


def _outlived(folder):
    """Ended by a signal, while a helper that it has forked holds all its descriptors. The test ends that."""
    helper = os.fork()
    if helper == 0:
        time.sleep(10 * LONG)
        os._exit(0)
    (pathlib.Path(folder) / "helper").write_text(str(helper))
    os.kill(os.getpid(), signal.SIGKILL)


def _copy_returns(_):
    """A forked copy of the process returns in its place."""
    copy = os.fork()
    if copy:
        os.waitpid(copy, 0)
        os._exit(0)


# How a process may end, and what is told of it.
ENDS = {
    "interrupt raised": (lambda _: _raise(KeyboardInterrupt()), "KeyboardInterrupt"),
    "SIGINT": (lambda _: (os.kill(os.getpid(), signal.SIGINT), time.sleep(LONG)), "KeyboardInterrupt"),
    "no Exception": (lambda _: _raise(Stop("enough")), "Stop: enough"),
    "GeneratorExit": (lambda _: _raise(GeneratorExit()), "GeneratorExit"),
    "unpicklable": (lambda _: _raise(Unpicklable()), "Unpicklable"),
    "sys.exit text": (lambda _: sys.exit("no coffee"), "exit code 1"),
    "sys.exit number": (lambda _: sys.exit(5), "exit code 5"),
    "sys.exit 256": (lambda _: sys.exit(256), "exit code 0 before its function had returned"),
    "os._exit": (lambda _: os._exit(3), "exit code 3"),
    "os._exit 0": (lambda _: os._exit(0), "exit code 0 before its function had returned"),
    "os._exit 0 after a copy": (_copy_returns, "exit code 0 before its function had returned"),
    "abort": (lambda _: (faulthandler.disable(), os.abort()), "signal SIGABRT"),
    "SIGKILL": (lambda _: os.kill(os.getpid(), signal.SIGKILL), "signal SIGKILL"),
    "SIGTERM": (lambda _: os.kill(os.getpid(), signal.SIGTERM), "signal SIGTERM"),
    "exec": (lambda _: os.execv("/bin/sh", ["sh", "-c", "exit 4"]), "exit code 4"),
    "outlived by a helper": (_outlived, "signal SIGKILL"),
}


def end(index, how, folder):
    note(index, folder)
    if index == 1:
        ENDS[how][0](folder)
    else:
        wait_for(folder, 2)


def end_on(who, how):
    if dist.get_rank() == who:
        ENDS[how][0](None)
    dist.barrier()


def end_well(index, folder):
    """Three successes: returning with all descriptors closed, sys.exit(), a program that ends well."""
    note(index, folder)
    if index == 0:
        os.closerange(3, 1000)
    elif index == 1:
        sys.exit()
    elif index == 2:
        os.execv("/bin/sh", ["sh", "-c", "exit 0"])


def put(index, queue):
    queue.put((index, mp.current_process().daemon))


def ignore_sigterm(index, folder):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(index, folder)
    if index == 0:
        wait_for(folder, 2)
        raise ValueError("first")
    time.sleep(10 * LONG)  # as below


def stay(index, folder):
    note(index, folder)
    time.sleep(10 * LONG)  # who only sleeps it out has not been ended


def stay_as_rank(folder):
    stay(dist.get_rank(), folder)


def noted(folder):
    """The numbers of the processes that have noted themselves."""
    texts = [file.read_text() for file in pathlib.Path(folder).iterdir()]
    return [int(text) for text in texts if text]  # none: it is just writing


def wait_for(folder, count):
    """Until so many processes have noted themselves."""
    until = time.monotonic() + LONG
    while len(noted(folder)) < count:
        assert time.monotonic() < until
        time.sleep(0.005)


def leave_late(index, folder):
    if index == 0:
        raise ValueError("first")
    time.sleep(0.3)
    (pathlib.Path(folder) / "left").touch()


class PeerLost(RuntimeError):
    code = "peer_lost"


def cause_comes_second(index, folder):
    if index == 0:
        raise PeerLost("rank 1 has died")
    wait_for_failure = pathlib.Path(folder)
    while not any(wait_for_failure.iterdir()):
        time.sleep(0.005)
    raise ValueError("the cause")


def wait_for_go(index, folder):
    note(index, folder)
    until = time.monotonic() + LONG
    while not (pathlib.Path(folder) / "go").exists():
        assert time.monotonic() < until
        time.sleep(0.005)


def add(values):
    x = array.array("d", [values[dist.get_rank()]])
    dist.all_reduce(x)
    return dist.get_rank(), x[0]


def large(count):
    return bytes([dist.get_rank()]) * count


def own_world():
    assert not dist.is_initialized()
    dist.init_process_group("gloo")
    assert dist.get_rank() == int(os.environ["RANK"]) == int(os.environ["LOCAL_RANK"])
    return dist.get_world_size(), os.environ.get("MY_VARIABLE")


def fail_on(who):
    if dist.get_rank() == who:
        raise ValueError("no coffee")
    dist.barrier()


def print_lines():
    letter = "abc"[dist.get_rank()]
    for i in range(2000):
        if i % 20 == 0:
            dist.barrier()
        print(letter * 40, letter * (i % 60 + 1))


def sleep_on(who):
    if dist.get_rank() == who:
        time.sleep(100)


def leave():
    if dist.get_rank() == 1:
        sys.exit(0)
