"""Groups and meshes: functions of a Crew, found through dist_cases.py."""

import copy
import datetime
import pickle

import numpy as np

import tutti.distributed as dist
from dist_crew import raises


def groups(r, n):
    evens = [i for i in range(n) if i % 2 == 0]
    with dist.new_group(evens) as even:
        if r in evens:
            x = np.ones(2)
            dist.all_reduce(x, group=even)
            assert (x == len(evens)).all()
        else:
            assert even is dist.GroupMember.NON_GROUP_MEMBER and even == -100
            assert dist.all_reduce(np.ones(1), group=even) is None
            assert dist.gather_v(np.ones(1), group=even) == dist.all_gather_v(np.ones(1), even) == (None, [])
    if r in evens:
        assert even.closed
        raises(ValueError, "has been destroyed", lambda: dist.all_reduce(np.ones(1), group=even))
    assert dist.new_group(timeout=datetime.timedelta(seconds=7)).timeout == datetime.timedelta(seconds=7)
    assert dist.new_group().timeout == dist.default_pg_timeout  # not the world's
    # The order of the list counts where it is not to be sorted.
    backwards = dist.new_group(list(range(n))[::-1], sort_ranks=False)
    assert dist.get_rank(backwards) == n - 1 - r
    dist.broadcast(x := np.full(1, r), 0, group=backwards)
    assert x == 0
    dist.broadcast(x := np.full(1, r), group=backwards, group_src=0)
    assert x == n - 1
    current, every = dist.new_subgroups(1)
    assert len(every) == n and current is every[r] and dist.get_world_size(current) == 1
    halves = [list(range(n // 2)), list(range(n // 2, n))]
    part = dist.split_group(split_ranks=[half for half in halves if half])
    dist.all_reduce(x := np.ones(1), group=part)
    assert x == len(halves[0] if r < n // 2 else halves[1])
    assert dist.split_group(split_ranks=[[0]]) is None or r == 0
    for _ in range(2):  # only the members call, twice with the same ranks
        if r in evens:
            local = dist.new_group(evens, use_local_synchronization=True)
            dist.all_reduce(x := np.ones(1), group=local)
            assert x == len(evens)
        else:
            assert dist.new_group(evens, use_local_synchronization=True) is None
    if r in evens:  # a name is taken again only when its group is gone
        first, second = [dist.new_group(evens, use_local_synchronization=True) for _ in range(2)]
        dist.destroy_process_group(first)
        third = dist.new_group(evens, use_local_synchronization=True)
        assert third.group_name != second.group_name and not second.closed and not third.closed
        for living in (second, third):
            dist.all_reduce(x := np.ones(1), group=living)
            assert x == len(evens)
    dist.barrier()


def mesh(r, n):
    rows = 2 if n % 2 == 0 else 1
    m = dist.init_device_mesh("cpu", (rows, n // rows), mesh_dim_names=("a", "b"))
    for make in (lambda kind: dist.init_device_mesh(kind, (n,)), lambda kind: dist.DeviceMesh(kind, list(range(n)))):
        raises(RuntimeError, "device type 'gpu' is unknown; possible are cpu, cuda", lambda make=make: make("gpu"))
        raises(TypeError, 'the device type is text, such as "cpu" or "cuda", not 3', lambda make=make: make(3))
        on_gpus = make("cuda")
        x = np.ones(1)
        dist.all_reduce(x, group=on_gpus.get_group())
        assert on_gpus.device_type == "cuda" and x == n and on_gpus != make("cpu")
    assert m == dist.DeviceMesh("cpu", np.arange(n).reshape(rows, n // rows), mesh_dim_names=("a", "b"))
    assert dist.DeviceMesh.from_group(dist.group.WORLD, "cpu").get_group() is dist.group.WORLD


def mesh_order(r, n):
    """The ranks of a mesh's groups ascend, whatever their order in the mesh."""
    back = dist.DeviceMesh("cpu", list(range(n))[::-1], mesh_dim_names=("all",))
    assert back.get_group() is dist.group.WORLD and back.get_local_rank() == r and back.get_coordinate() == (n - 1 - r,)
    if n < 4:
        return
    mesh = dist.DeviceMesh("cpu", [[3, 1], [2, 0]], mesh_dim_names=("a", "b"))
    if r > 3:
        assert mesh.get_coordinate() is None and mesh.mesh.tolist() == [[3, 1], [2, 0]]
        raises(IndexError, "is not in the mesh", lambda: mesh.get_group("a"))
        raises(RuntimeError, "contain the local rank", lambda: mesh["a"])
        return
    place = {3: (0, 0), 1: (0, 1), 2: (1, 0), 0: (1, 1)}[r]
    column, row = [[2, 3], [0, 1]][place[1]], [[1, 3], [0, 2]][place[0]]
    assert mesh.get_local_rank("a") == column.index(r) and mesh.get_local_rank("b") == row.index(r)
    assert mesh["a"].mesh.tolist() == column[::-1] and mesh["b"].mesh.tolist() == row[::-1]
    raises(KeyError, "ascending order", lambda: mesh["b", "a"])
    for copied in (pickle.loads(pickle.dumps(mesh)), copy.deepcopy(mesh), copy.copy(mesh)):
        assert copied == mesh and hash(copied) == hash(mesh) and copied.get_group("a") is mesh.get_group("a")
    assert pickle.loads(pickle.dumps(mesh["b"])).get_coordinate() == (place[1],)
    with mesh as entered:
        assert entered is mesh


def missing_rank(r, n):
    """Everybody but the last two ranks of a group comes to a monitored barrier; then the group is broken."""
    for every, absent in ((False, 1), (True, min(2, n - 1))):
        group, first = dist.new_group(), n - absent
        dist.barrier()
        if n == 1:
            dist.monitored_barrier(group, datetime.timedelta(seconds=1), every)
            continue
        text = f"[Rank 0]: Rank{'s' if every else ''} {first}{f', {n - 1}' if absent > 1 else ''} failed " \
               f"to pass monitoredBarrier in 1000 ms: rank {first} on "
        if r < first:
            words = "" if r == 0 else (
                f"Rank {r} successfully reached monitoredBarrier, but received errors while waiting for send/recv "
                f"from rank 0. Please check rank 0 logs for faulty rank. ")
            problem = raises(RuntimeError, text, lambda: dist.monitored_barrier(
                group, datetime.timedelta(seconds=1), every))
            assert str(problem).startswith(words + text), problem
            assert isinstance(problem, TimeoutError) and problem.culprit == first, problem
        dist.barrier()
        if r >= first:  # its own turn comes too late
            raises(dist.DistBackendError, text, lambda: dist.monitored_barrier(group))
        raises(TimeoutError, text, lambda: dist.barrier(group))
        dist.destroy_process_group(group)
    dist.barrier()
    raises(ValueError, "positive", lambda: dist.monitored_barrier(timeout=datetime.timedelta(0)))
    raises(TypeError, "timedelta", lambda: dist.monitored_barrier(timeout="3"))
