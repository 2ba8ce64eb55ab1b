"""Operations on Python objects: functions of a Crew, found through dist_cases.py."""

import numpy as np

import tutti.distributed as dist
from dist_crew import raises


def objects_and_lists(r, n):
    """A rank that waits for a list of anybody's gets one, not a part of a gather or scatter that comes before."""
    from tutti.distributed.exchange import OBJECT_TAG
    from tutti.distributed.pickling import META_BYTES
    for operation in ("gather", "scatter"):
        waiting = dist.group.WORLD._low.irecv(meta := bytearray(META_BYTES), None, tag=OBJECT_TAG)  # of a list
        if operation == "gather":
            dist.gather_object(r, got := [None] * n if r == 0 else None)
            assert r or got == list(range(n))
        else:
            dist.scatter_object_list(out := [None], list(range(n)) if r == 0 else None)
            assert out == [r]
        assert not waiting.is_completed()
        dist.barrier()
        end = dist.group.WORLD._low.isend(bytes(META_BYTES), (r + 1) % n, tag=OBJECT_TAG)
        assert waiting.wait() and end.wait() and meta == bytes(META_BYTES)


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
    # Lists of other lengths: who receives says so, and the group goes on.
    if n > 1:
        places = [1, 2] if r == 0 else [None]
        if r == 0:
            dist.broadcast_object_list(places, 0)
        else:
            raises(ValueError, "2 objects", lambda: dist.broadcast_object_list(places, 0))
    dist.barrier()
