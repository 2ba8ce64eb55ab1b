"""Objects: functions of a Crew, found through dist_cases.py."""

import pickle
import threading

import numpy as np

import tutti.distributed as dist
from tutti.distributed.exchange import OBJECT_TAG
from tutti.distributed.pickling import HEAD_BYTES
from tutti.errors import InvalidArgument

from dist_crew import raises


def objects_and_lists(r, n):
    """A rank that waits for a list of anybody's gets one, not a part of a gather or scatter that comes before."""
    for operation in ("gather", "scatter"):
        waiting = dist.group.WORLD._low.irecv(head := bytearray(HEAD_BYTES), None, tag=OBJECT_TAG)  # of a list
        if operation == "gather":
            dist.gather_object(r, got := [None] * n if r == 0 else None)
            assert r or got == list(range(n))
        else:
            dist.scatter_object_list(out := [None], list(range(n)) if r == 0 else None)
            assert out == [r]
        assert not waiting.is_completed()
        dist.barrier()
        end = dist.group.WORLD._low.isend(bytes(HEAD_BYTES), (r + 1) % n, tag=OBJECT_TAG)
        assert waiting.wait() and end.wait() and head == bytes(HEAD_BYTES)


def objects(r, n):
    large = np.arange(300_000.0) + r
    objs = [None] * n
    dist.all_gather_object(objs, {"rank": r, "large": large, "text": "x" * r})
    assert all(o["rank"] == i and o["large"][0] == i and o["text"] == "x" * i for i, o in enumerate(objs))
    objs[0]["large"][0] = -1  # what arrives is writable
    mine = [1, {"a": large}, None] if r == n - 1 else [None] * 3
    dist.broadcast_object_list(mine, n - 1)
    assert mine[0] == 1 and (mine[1]["a"] == np.arange(300_000.0) + n - 1).all() and mine[2] is None
    got = [None] * n if r == 0 else None
    dist.gather_object((r, large), got)
    assert r or [(a, b[0]) for a, b in got] == [(i, float(i)) for i in range(n)]
    out = [None]
    dist.scatter_object_list(out, [(i, large) for i in range(n)] if r == 0 else None)
    assert out[0][0] == r and out[0][1][0] == 0
    if n > 1 and r == 1:
        dist.send_object_list(["a", large], 0)
    if n > 1 and r == 0:
        pair = [None, None]
        assert dist.recv_object_list(pair) == 1 and pair[0] == "a" and pair[1][0] == 1
    _objects_of_any_size(r, n)
    # Lists of other lengths: who receives says so, and the group goes on.
    if n > 1:
        places = [1, 2] if r == 0 else [None]
        if r == 0:
            dist.broadcast_object_list(places, 0)
        else:
            raises(ValueError, "2 objects", lambda: dist.broadcast_object_list(places, 0))
    dist.all_to_all_object(objs, [(r, to, large[to:]) for to in range(n)])
    assert all(o[:2] == (i, r) and (o[2] == np.arange(300_000.0)[r:] + i).all() for i, o in enumerate(objs))
    raises(TypeError, "must be a list with an object for each rank", lambda: dist.all_to_all_object(objs, "x" * n))
    raises(ValueError, f"has {n + 1} objects", lambda: dist.all_to_all_object(objs, [1] * (n + 1)))
    raises(ValueError, "has 0 places", lambda: dist.all_to_all_object([], [1] * n))
    _objects_without_a_pickle(r, n)
    dist.barrier()


def _objects_of_any_size(r, n):
    """Small pickles travel in the head. Around its end, and where ranks differ, each gets what was sent."""
    for length in (1, 470, 480, 490, 500, 5000):
        for mine in ("x" * length, "x" * (length + 9 * r), [np.full(100_000, r), "x" * length * (r % 2)]):
            dist.all_gather_object(every := [None] * n, (r, mine))
            dist.all_gather_object(others := [None] * n, pickle.dumps(mine))
            assert [of for of, _ in every] == list(range(n))
            assert all(pickle.dumps(got) == sent for (_, got), sent in zip(every, others)), length
            dist.gather_object(mine, got := [None] * n if r == n - 1 else None, n - 1)
            assert r < n - 1 or [pickle.dumps(one) for one in got] == others
            dist.all_to_all_object(got := [None] * n, [mine] * n)
            assert [pickle.dumps(one) for one in got] == others
            dist.scatter_object_list(got := [None], [mine] * n if r == 0 else None)
            assert pickle.dumps(got[0]) == others[0]
            dist.broadcast_object_list(got := [mine] if r == 0 else [None])
            assert pickle.dumps(got[0]) == others[0]
            if n > 1 and r == 0:
                dist.send_object_list([mine], n - 1)
            if n > 1 and r == n - 1:
                assert dist.recv_object_list(got := [None]) == 0 and pickle.dumps(got[0]) == others[0]


def _objects_without_a_pickle(r, n):
    """The rank that has it raises what pickle raises. Those that would get it are told which rank and why, and the group
    goes on."""
    bad, culprit, root = threading.Lock(), n - 1, 0
    mine = bad if r == culprit else np.ones(100_000)
    listed = [bad if r == culprit and to == root else to for to in range(n)]
    many = [1] * (n - 1) + [bad] if r == culprit else None
    calls = [("all_gather_object", range(n), lambda: dist.all_gather_object([None] * n, mine)),
             ("all_to_all_object", range(n), lambda: dist.all_to_all_object([None] * n, listed)),
             ("broadcast_object_list", range(n), lambda: dist.broadcast_object_list([mine], culprit)),
             ("gather_object", [root], lambda: dist.gather_object(mine, [None] * n if r == root else None, root)),
             ("scatter_object_list", range(n), lambda: dist.scatter_object_list([None], many, culprit))]
    if n > 1 and r in (root, culprit):
        calls.append(("recv_object_list", [root], lambda: (
            dist.recv_object_list([None], culprit) if r == root else dist.send_object_list([bad], root))))
    for operation, told, call in calls:
        if r == culprit:
            raises(TypeError, "cannot pickle '_thread.lock' object", call)
        elif r in told:
            problem = raises(InvalidArgument, f"{operation}: rank {culprit} could not pickle its object: TypeError: cannot "
                             f"pickle '_thread.lock' object; the group stays usable", call)
            assert problem.culprit == culprit
        else:
            call()
