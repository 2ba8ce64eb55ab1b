"""tutti.distributed in a child that was forked from a rank: docs/design/threads.md, "fork and exec"."""

import os
import signal

import pytest

import ranks
import stacks

# A child looks at what it has of its parent, and makes a world of its own.
CHILD = """
import ctypes, multiprocessing, subprocess, threading
import tutti.distributed as dist
from tutti import rank0

heard = []
def early():
    heard.append(dist.is_initialized())
os.register_at_fork(after_in_child=early)  # handlers run in the order in which they were registered

dist.init_process_group("gloo", timeout=20)
rank, size = dist.get_rank(), dist.get_world_size()
group = dist.new_group(list(range(size)))
assert not isinstance(group, int)
buffer = np.zeros(3)
work = dist.irecv(buffer, (rank + 1) % size)
future = work.get_future()
after = future.then(lambda done: done.value()[0].sum())
store = dist.TCPStore("127.0.0.1", 0, None, True)

def refused(call, number=None):
    try:
        problem = raises(tutti.BackendError, "this process was forked", call)
    except AssertionError as error:
        raise AssertionError(f"call {number}: {error}") from error
    assert problem.code == "unsupported", problem

def check_child(again=True):
    x = np.ones(2)
    assert not dist.is_initialized() and heard[-1] is False
    assert dist.group.WORLD is None
    for number, call in enumerate((dist.barrier, lambda: dist.all_reduce(x), lambda: dist.all_reduce(x, group=group), lambda: group.barrier().wait(),
                 lambda: dist.all_reduce(x, group=group, async_op=True).wait(), lambda: dist.send(x, 0),
                 lambda: dist.broadcast_object_list([1]), dist.new_group, lambda: dist.new_group([0]), work.wait, future.wait,
                 after.wait, lambda: dist.monitored_barrier(timeout=5))):
        refused(call, number)
    assert "forked" in str(group.health())
    raises(tutti.BackendError, "forked", lambda: store.set("a", "b"))
    assert (dist.get_rank(), dist.get_world_size(), dist.get_rank(group)) == (rank, size, rank)
    assert dist.get_process_group_ranks(group) == dist.get_process_group_ranks(None) == list(range(size))
    assert (dist.get_global_rank(group, rank), dist.get_group_rank(group, rank), dist.get_backend()) == (rank, rank, "gloo")
    assert (rank0.rank(), rank0.world_size()) == (rank, size)
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        os.environ.pop(name, None)
    for turn in range(2):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        assert dist.is_initialized() and dist.get_world_size() == 1 and rank0.rank() == 0
        dist.all_reduce(x)
        own = dist.new_group([0])
        dist.all_reduce(x, group=own)
        refused(lambda: dist.all_reduce(x, group=group))
        if turn == 0:
            dist.destroy_process_group()
            assert not dist.is_initialized()
    if again:
        assert in_fork(grandchild) == 0

def grandchild():
    assert not dist.is_initialized()
    refused(dist.barrier)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.barrier()

def by_fork():
    assert in_fork(check_child) == 0

def by_thread():
    codes = []
    thread = threading.Thread(target=lambda: codes.append(in_fork(check_child)))
    thread.start()
    thread.join(40)
    assert codes == [0]

def by_multiprocessing():
    child = multiprocessing.get_context("fork").Process(target=check_child)
    child.start()
    child.join(40)
    assert child.exitcode == 0

def by_c_library():  # no handler of os.register_at_fork runs
    def child():
        assert not dist.is_initialized()
        heard.append(False)
        check_child(False)
    assert in_fork(child, fork=ctypes.CDLL(None).fork) == 0

def by_two_at_once():
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            dist.is_initialized()
            with dist.world.world.lock:
                pass
    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(5):
            assert in_fork(check_child, False) == 0
    finally:
        stop.set()
        thread.join()

def not_by_a_program():
    subprocess.run(["/bin/true"], check=True, preexec_fn=lambda: None)
    subprocess.run(["/bin/true"], check=True)
    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)

HOW()
# The parent has lost nothing. The message comes when no rank forks any more.
dist.barrier()
assert dist.is_initialized() and dist.get_rank() == rank
dist.send(np.full(3, 2.0), (rank - 1) % size)
work.wait()
assert buffer.sum() == 6 and after.wait() == 6
dist.all_reduce(buffer, group=group)
assert buffer.sum() == 6 * size
dist.barrier()
dist.destroy_process_group()
assert not dist.is_initialized()
"""
WAYS = ["by_fork", "by_thread", "by_multiprocessing", "by_c_library", "by_two_at_once", "not_by_a_program"]


@pytest.mark.parametrize("how", WAYS)
def test_a_forked_child_has_no_world_and_may_make_its_own(how, tmp_path):
    ranks.run(CHILD.replace("HOW()", f"{how}()"), 2, tmp_path, init=False)


def test_an_uncaught_error_of_a_child_names_its_own_rank():
    """The hook of the parent's rank is not the child's."""
    done = stacks.python("-c", """
import os
import tutti.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
if os.fork() == 0:
    raise ValueError("of the child")
os.wait()
raise ValueError("of the parent")
""")
    assert "\nValueError: of the child" in done.stderr and "[rank0]: ValueError: of the parent" in done.stderr


# How a rank ends, its exit status, and what the others are told: it has died, or left.
ENDS = {
    "SIGKILL, beside a helper": ("helper(); os.kill(os.getpid(), signal.SIGKILL)", -9, "peer_lost"),
    "os._exit, beside a helper": ("helper(); os._exit(0)", 0, "peer_lost"),
    "os._exit": ("os._exit(3)", 3, "peer_lost"),
    "os.abort": ("faulthandler.disable(); os.abort()", -6, "peer_lost"),
    "another program": ("os.execv('/bin/sleep', ['sleep', '0.5'])", 0, "peer_lost"),
    "the end of the program": ("sys.exit(0)", 0, "peer_left"),
    "an exception": ("raise ValueError('no coffee')", 1, "peer_left"),
    "sys.exit in a handler": ("signal.signal(signal.SIGUSR1, lambda *_: sys.exit(4)); os.kill(os.getpid(), signal.SIGUSR1)", 4,
                              "peer_left"),
    "sys.exit in a handler in a call": ("signal.signal(signal.SIGALRM, lambda *_: sys.exit(4)); signal.alarm(1); "
                                        "dist.recv(np.zeros(1), 0)", 4, "interrupted"),
}


@pytest.mark.parametrize("how", ranks.one_by_rotation(ENDS, parts=3))
def test_the_end_of_a_rank_is_told(how, tmp_path):
    end, status, code = ENDS[how]
    body = f"""
import faulthandler
import tutti.distributed as dist
dist.init_process_group("gloo", timeout=60)
dist.all_reduce(np.ones(3))

def helper():  # as a loader of data, it lives on
    child = os.fork()
    if child == 0:
        os.closerange(0, 3)
        time.sleep(120)
        os._exit(0)
    tell(f"helper {{child}}")

if RANK == 1:
    {end}
begin = time.monotonic()
try:
    dist.recv(np.zeros(3), 1)
except tutti.Error as problem:
    assert problem.culprit == 1 and (problem.code == {code!r} or "interrupted" in str(problem) and {code!r} == "interrupted"), problem
else:
    raise AssertionError("was received")
assert time.monotonic() - begin < 20
"""
    try:
        with ranks.Job(body, 2, tmp_path, init=False) as job:
            job.finish({1: status}, leaks=True)
    finally:
        helpers = [int(file.name.split()[1]) for file in tmp_path.glob("helper *")]
        lived = [stacks.state(pid) not in "ZX" for pid in helpers]
        for pid in helpers:
            os.kill(pid, signal.SIGKILL)
    assert lived == [True] * ("helper()" in end), "shows nothing"
