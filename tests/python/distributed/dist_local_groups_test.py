"""Groups with local synchronization: no failure of making or using one breaks the world or another group."""

import signal

import pytest

import init_programs
import ranks

BEGIN = """
dist.init_process_group("gloo", timeout=20)

def local(*ranks, limit=20):
    return dist.new_group(list(ranks), limit, use_local_synchronization=True)

"""
END = """
assert dist.group.WORLD.health() is None
check()
dist.barrier()
"""


def run(body, size, folder):
    init_programs.run(BEGIN + body + END, size, folder)


def test_again_when_one_rank_has_destroyed_the_first(tmp_path):
    run("""
first = local(0, 1)
check(first, 2)
if RANK == 1:
    dist.destroy_process_group(first)
second = local(0, 1)  # has waited for its timeout, and broken the world
check(second, 2)
if RANK == 0:
    dist.destroy_process_group(second)
    dist.destroy_process_group(first)
third, fourth = local(0, 1), local(0, 1)
check(fourth, 2)
check(third, 2)
assert third.group_name != fourth.group_name
""", 2, tmp_path)


def test_a_member_that_does_not_come_breaks_nothing(tmp_path):
    run("""
other = local(0, 1) if RANK < 2 else None
if RANK != 2:
    for attempt in range(2):
        problem = raises(tutti.Error, "timed out after", lambda: local(0, 1, 2, limit=0.5))
        assert isinstance(problem, tutti.TimeoutError) and "rank 2" in str(problem), problem
    check(other, 2)
dist.barrier()
# The one that comes late is told at once that the others have given up, once for each time.
if RANK == 2:
    begin = time.monotonic()
    for attempt in range(2):
        raises(tutti.Error, "rank", lambda: local(0, 1, 2))
    assert time.monotonic() - begin < 15
check(local(0, 1, 2), 3)
""", 3, tmp_path)


def test_lists_that_differ_break_nothing(tmp_path):
    run("""
lists = [(0, 1), (0, 1, 2), (1, 2)]
assert isinstance(raises(tutti.Error, "rank", lambda: local(*lists[RANK], limit=1)), tutti.Error)
check(local(*((0, 2) if RANK != 1 else (1,))), 2 if RANK != 1 else 1)
""", 3, tmp_path)


@pytest.mark.parametrize("size", ranks.sizes(3, others=(5, 4)))
def test_overlapping_groups_in_other_orders(size, tmp_path):
    run("""
pairs = [(one, other) for one in range(SIZE) for other in range(one + 1, SIZE)]
made = {}
def make(pair):
    made[pair] = local(*pair)
# On threads, each rank in an order of its own; one by one they would wait for each other in a circle.
threads = [threading.Thread(target=make, args=(pair,)) for pair in pairs if RANK in pair]
for thread in threads[RANK:] + threads[:RANK]:
    thread.start()
for thread in threads:
    thread.join(30)
assert len(made) == SIZE - 1
for pair in pairs:
    if RANK in pair:
        check(made[pair], 2)
everybody = dist.new_group()  # names of ordinary groups are alike on all ranks
names = [None] * SIZE
dist.all_gather_object(names, everybody.group_name)
assert len(set(names)) == 1
check(local(RANK), 1)
""", size, tmp_path)


def test_failures_of_its_operations_stay_in_it(tmp_path):
    run("""
late, broken, living = local(0, 1), local(0, 1), local(1, 0)
if RANK == 0:
    raises(tutti.Error, "rank", lambda: dist.monitored_barrier(late, timeout=0.3))
    broken.abort("enough")
dist.barrier()
raises(tutti.Error, "enough", lambda: dist.barrier(broken))
check(living, 2)
""", 2, tmp_path)


def test_a_member_that_dies_is_told(tmp_path):
    body = init_programs.PRELUDE + BEGIN + """
if RANK == 2:
    await_told("calls")
    os.kill(os.getpid(), signal.SIGKILL)
if RANK == 0:
    tell("calls")
begin = time.monotonic()
problem = raises(tutti.Error, "rank 2", lambda: local(0, 1, 2))
assert problem.code == "peer_lost" and time.monotonic() - begin < 15
"""
    with ranks.Job(body, 3, tmp_path, init=False) as job:
        job.finish({2: -signal.SIGKILL}, leaks=True)


def test_a_member_that_has_left_is_told(tmp_path):
    init_programs.run(BEGIN + """
if RANK == 2:
    dist.destroy_process_group()
    tell("left")
    sys.exit(0)
await_told("left")
begin = time.monotonic()
problem = raises(tutti.Error, "rank 2", lambda: local(0, 1, 2))
assert problem.code == "peer_left" and time.monotonic() - begin < 15 and dist.group.WORLD.health() is None
check(local(0, 1), 2)
dist.send(np.ones(1), 1 - RANK)
dist.recv(np.ones(1), 1 - RANK)
""", 3, tmp_path)
