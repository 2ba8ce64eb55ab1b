"""Groups that a program makes and drops without destroying them: they are given back when no member holds them."""

import pytest

import init_programs
import ranks

BEGIN = """
import random
dist.init_process_group("gloo", timeout=30)
EVERY = list(range(SIZE))

def held():  # those that take a place of this rank
    return dist.world.world.held.live()

"""


def run(body, size, folder, end="check()\ndist.destroy_process_group()\n", **options):
    init_programs.run(BEGIN + body + end, size, folder, **options)


MANY = """
kept = dist.new_group(EVERY)
for turn in range(COUNT):
    group = MAKE
    if turn % 500 == 0:
        check(group, LEN) if group is not dist.GroupMember.NON_GROUP_MEMBER else None
        check(kept)
assert held() <= 4, held()
check(kept)
"""
# How a group is made, and how many ranks it has.
WAYS = {
    "new_group": ("dist.new_group(EVERY)", "SIZE"),
    "some ranks": ("dist.new_group([0, turn % (SIZE - 1) + 1])", "2"),
    "new_subgroups": ("dist.new_subgroups(1)[0]", "1"),
    "split_group": ("dist.split_group(kept, [[0], list(range(1, SIZE))])", "dist.get_world_size(group)"),
}


def make_and_drop(way, count, size, folder):
    make, length = WAYS[way]
    run(MANY.replace("COUNT", str(count)).replace("MAKE", make).replace("LEN", length), size, folder, limit=300)


@pytest.mark.parametrize("way, count", [("new_group", 4200), *ranks.one_by_rotation([("some ranks", 1000), ("new_subgroups", 600), ("split_group", 600)])])
def test_many_groups_are_made_and_dropped(way, count, tmp_path):
    make_and_drop(way, count, 2 if way != "some ranks" else 3, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("way", WAYS)
def test_more_than_there_are_places_are_made_and_dropped(way, size, tmp_path):
    make_and_drop(way, 4200, size, tmp_path)


@pytest.mark.parametrize("size", ranks.sizes(2, others=(3, 5)))
def test_ranks_drop_in_other_orders_and_one_goes_on(size, tmp_path):
    run("""
choice = random.Random(RANK)  # an order of its own on each rank
groups = [dist.new_group(EVERY) for _ in range(30)]
used = groups[0]
for turn in range(120):
    groups.append(dist.new_group(EVERY))
    check(groups[-1])
    if len(groups) > 20:
        del groups[choice.randrange(1, len(groups))]
    if RANK != 0:
        dist.send(np.full(2, float(turn)), 0, group=used)
    else:
        for other in range(1, SIZE):
            dist.recv(x := np.zeros(2), other, group=used)
            assert x.tolist() == [turn] * 2
check(used)
group = None
groups = groups[:1]
assert all(one.health() is None for one in groups)
# The last rank still uses what the others have dropped: sends of a few bytes, its ranks, its name.
if RANK != SIZE - 1:
    del used, groups
for turn in range(20):
    dist.new_group(EVERY)
    if RANK == SIZE - 1:
        dist.send(np.ones(1), 0, group=used)
        assert used.health() is None and dist.get_world_size(used) == SIZE and not used.closed
        assert dist.distributed_c10d._resolve_process_group(used.group_name) is used
        dist.isend(np.ones(1), RANK, group=used)
        dist.recv(np.zeros(1), RANK, group=used)
assert held() == 2, held()  # the one that one rank uses, and the last one
if RANK == SIZE - 1:
    del used, groups
for turn in range(2):
    dist.new_group(EVERY)
assert held() == 1, held()
""", size, tmp_path)


def test_what_counts_as_use(tmp_path):
    run("""
one, two, three, four = (dist.new_group(EVERY) for _ in range(4))
names = [one.group_name, two.group_name, three.group_name, four.group_name]
work = dist.all_reduce(sum := np.ones(3), group=one, async_op=True)  # a Work of it
later = np.zeros(3)
if RANK == 0:
    dist.irecv(later, 1, group=two)                            # an operation that nobody waits for
mesh = dist.DeviceMesh.from_group(four, "cpu")                 # a mesh
lines = dist.init_device_mesh("cpu", (SIZE, 1), mesh_dim_names=("a", "b"))
del one, three, four
if RANK == 0:
    del two
for turn in range(3):
    dist.new_group(EVERY)
problem = raises(RuntimeError, "Could not resolve the process group", lambda: dist.distributed_c10d._resolve_process_group(names[2]))
assert "a name alone keeps no group" in str(problem)
check(mesh.get_group())
check(lines["a"].get_group())
check(lines.get_group("b"), 1)
import copy, pickle
again = copy.deepcopy(mesh)
loaded = pickle.loads(pickle.dumps(lines))
del mesh, lines
for turn in range(3):
    dist.new_group(EVERY)
check(again.get_group())
check(loaded.get_group("a"))
work.wait()
assert sum.tolist() == [SIZE] * 3
if RANK == 1:
    dist.send(np.full(3, 5.0), 0, group=two)
    del two
until = time.monotonic() + 20
while RANK == 0 and later.tolist() != [5] * 3:
    assert time.monotonic() < until, later
    time.sleep(0.001)
del work
dist.barrier()
for turn in range(3):
    dist.new_group(EVERY)
assert held() <= 5, held()  # the last one, and those of the meshes
""", 2, tmp_path)


def test_one_rank_destroys_what_the_others_drop(tmp_path):
    run("""
for turn in range(50):
    group = dist.new_group(EVERY)
    check(group)
    if (turn + RANK) % 2:
        dist.destroy_process_group(group)
group = None
for turn in range(2):
    dist.new_group(EVERY)
assert held() == 1, held()
""", 3, tmp_path)


def test_groups_with_local_synchronization_are_given_back(tmp_path):
    run("""
for turn in range(40):
    check(dist.new_group(EVERY, use_local_synchronization=True))
assert held() <= 2, held()
assert len(os.listdir("/proc/self/fd")) < 200
""", 2, tmp_path)


@pytest.mark.full
def test_all_places_are_taken_and_all_groups_dropped(tmp_path):
    run("""
groups = [dist.new_group(EVERY) for _ in range(4095)]
check(groups[-1])
groups.append(groups)  # a cycle, which only the collector of Python finds
del groups
check(dist.new_group(EVERY))
check(dist.new_group(EVERY))
assert held() < 10, held()
""", 2, tmp_path)


@pytest.mark.full
def test_the_error_says_what_holds_the_places(tmp_path):
    run("""
groups = [dist.new_group(EVERY) for _ in range(4095)]
if RANK == 0:
    del groups[:7]
problem = raises(tutti.Error, "4096 groups already", lambda: [dist.new_group(EVERY) for _ in range(2)])
if RANK == 0:
    assert "7 were dropped here and are given back when other members drop them, too (the first is 'group 1', which rank 1 " \\
           "still holds)" in str(problem), problem
else:
    assert "4095 are in use on this rank" in str(problem), problem
""", 2, tmp_path, end="", limit=300)
