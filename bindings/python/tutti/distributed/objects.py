"""Operations on any Python object. They wait; objects travel as pickles.

Unpickling runs what the sender names, so it is for peers that are trusted: members of the job, which have
proved to know its secret. In a group that is not authenticated these operations are refused.
Big arrays and tensors travel from their memory into memory, uncopied.

A rank whose object cannot be pickled sends the reason instead, and raises its own exception at the end. The others, as far as
they would get the object, raise InvalidArgument with the rank and the reason. Their lists stay as they are, and the group is
usable.
"""

from collections.abc import Sequence
from typing import Any

from tutti._times import Timeout
from tutti.distributed.exchange import OBJECT_PART_TAG, OBJECT_TAG
from tutti.distributed.process_group import (AnyGroup, ProcessGroup, global_rank_of, member_group, rank_in_group, sender_in_group,
                                             rank_or_first)
from tutti.distributed.collectives import check_list_of_root
from tutti.distributed.p2p import _not_to_self
from tutti.distributed.pickling import META_BYTES, Packed, check_reason, read_meta, read_metas, room, rooms, unpack
from tutti.distributed.work import wait_all
from tutti.errors import InvalidArgument, WrongLengthError


def check_objects(pg: ProcessGroup, operation: str, weights_only: bool = False) -> None:
    """Refuses the operation before anything is sent, on every rank alike."""
    if weights_only:
        raise InvalidArgument(f"{operation}: weights_only=True is refused: objects are read by pickle alone, from ranks "
                              f"that have proved that they belong to the job; leave it out, or send tensors")
    pg._low.check_objects(operation)


def broadcast_object_list(object_list: list[Any], src: int | None = None, group: AnyGroup = None, device: Any = None,
                          group_src: int | None = None, *, weights_only: bool = False, timeout: Timeout = None) -> None:
    """Put the objects of `src` into everybody's list, which has as many places. `device` changes nothing:
    everything travels in CPU memory."""
    pg = member_group(group, "broadcast_object_list")
    if pg is None:
        return
    check_objects(pg, "broadcast_object_list", weights_only)
    root = rank_or_first(pg, src, group_src)
    if not isinstance(object_list, list):
        raise TypeError(f"broadcast_object_list: object_list must be a list, not {type(object_list)}")
    if root == pg._own:
        packed = Packed(list(object_list))
        _broadcast_packed(pg, root, packed, timeout)
        packed.check()
        return
    meta = bytearray(META_BYTES)
    pg._low.broadcast(meta, root, timeout=timeout)
    buffers, size = read_meta(meta)
    body = room(size)
    pg._low.broadcast(body, root, timeout=timeout)
    check_reason(buffers, body, "broadcast_object_list", global_rank_of(pg, root))
    parts = rooms(body, buffers)
    wait_all([pg._low.broadcast(each, root, timeout=timeout, async_op=True) for each in parts])
    _fill(object_list, unpack(body, parts), "broadcast_object_list", global_rank_of(pg, root))


def _broadcast_packed(pg: ProcessGroup, root: int, packed: Packed, timeout: Any) -> None:
    pg._low.broadcast(packed.meta, root, timeout=timeout)
    pg._low.broadcast(packed.body, root, timeout=timeout)
    wait_all([pg._low.broadcast(each, root, timeout=timeout, async_op=True) for each in packed.buffers])


def _fill(object_list: list[Any], objects: Any, operation: str, src: int) -> None:
    if not isinstance(objects, list) or len(objects) != len(object_list):
        count = len(objects) if isinstance(objects, list) else "no list of"
        raise ValueError(f"{operation}: rank {src} sent {count} objects, but the list here has {len(object_list)} "
                         f"places")
    object_list[:] = objects


def all_gather_object(object_list: list[Any], obj: Any, group: AnyGroup = None, *, weights_only: bool = False,
                      timeout: Timeout = None) -> None:
    """Put the object of rank r into `object_list[r]`, on every rank. The list has a place for each."""
    pg = member_group(group, "all_gather_object")
    if pg is None:
        return
    check_objects(pg, "all_gather_object", weights_only)
    size = len(pg._ranks)
    _check_places(object_list, size, "all_gather_object", "object_list")
    low, packed = pg._low, Packed(obj)
    every = bytearray(META_BYTES * size)
    low.all_gather(every, packed.meta, timeout=timeout)
    metas = read_metas(every, size)
    bodies = [room(body) for _, body in metas]
    low.all_gather_list(bodies, packed.body, timeout=timeout)
    parts = [rooms(body, buffers) for body, (buffers, _) in zip(bodies, metas)]
    works = []
    for r in range(size):
        for position, each in enumerate(parts[r]):
            if r == pg._own:  # an object of this rank is unpickled from a copy, as everything else is
                memoryview(each)[:] = packed.buffers[position]
            works.append(low.broadcast(each, r, timeout=timeout, async_op=True))
    wait_all(works)
    packed.check()
    _unpack_all(pg, object_list, metas, bodies, parts, "all_gather_object")


def _unpack_all(pg: ProcessGroup, places: list[Any], metas: list[tuple[int, int]], bodies: list[Any], parts: list[list[Any]],
                operation: str) -> None:
    """Put the object of each rank into its place. If a rank has sent a reason instead, nothing is put."""
    for r, (buffers, _) in enumerate(metas):
        check_reason(buffers, bodies[r], operation, global_rank_of(pg, r))
    for r in range(len(metas)):
        places[r] = unpack(bodies[r], parts[r])


def all_to_all_object(output_object_list: list[Any], input_object_list: Sequence[Any], group: AnyGroup = None, *,
                      weights_only: bool = False, timeout: Timeout = None) -> None:
    """Send `input_object_list[r]` to rank r, and put what rank r sent into `output_object_list[r]`. torch.distributed has
    no such operation."""
    pg = member_group(group, "all_to_all_object")
    if pg is None:
        return
    check_objects(pg, "all_to_all_object", weights_only)
    size, low = len(pg._ranks), pg._low
    _check_places(output_object_list, size, "all_to_all_object", "output_object_list")
    if not isinstance(input_object_list, (list, tuple)):
        raise TypeError(f"all_to_all_object: input_object_list must be a list with an object for each rank, not "
                        f"{type(input_object_list)}")
    _check_count(input_object_list, size, "all_to_all_object")
    packed = Packed.all_or_none(input_object_list)
    every = bytearray(META_BYTES * size)
    low.all_to_all(every, b"".join(each.meta for each in packed), timeout=timeout)
    metas = read_metas(every, size)
    bodies = [room(body) for _, body in metas]
    low.all_to_all_list(bodies, [each.body for each in packed], timeout=timeout)
    parts = [rooms(body, buffers) for body, (buffers, _) in zip(bodies, metas)]
    works = [low.isend(part, r, tag=OBJECT_PART_TAG, timeout=timeout) for r, each in enumerate(packed) for part in each.buffers]
    wait_all([low.irecv(each, r, tag=OBJECT_PART_TAG, timeout=timeout) for r in range(size) for each in parts[r]])
    wait_all(works)
    packed[0].check()
    _unpack_all(pg, output_object_list, metas, bodies, parts, "all_to_all_object")


def _check_count(objects: Sequence[Any], size: int, operation: str) -> None:
    if len(objects) != size:
        raise WrongLengthError(f"{operation}: the list has {len(objects)} objects; it must have one for each of {size} ranks")


def _check_places(places: Any, size: int, operation: str, name: str) -> None:
    if not isinstance(places, list):
        raise TypeError(f"{operation}: {name} must be a list with a place for each rank, not {type(places)}")
    if len(places) < size:
        raise WrongLengthError(f"{operation}: {name} has {len(places)} places; it must have one for each of {size} ranks")


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int | None = None, group: AnyGroup = None,
                  group_dst: int | None = None, *, weights_only: bool = False, timeout: Timeout = None) -> None:
    """Put the object of rank r into `object_gather_list[r]` on `dst` (0 unless said). Only there is a list
    given."""
    pg = member_group(group, "gather_object")
    if pg is None:
        return
    check_objects(pg, "gather_object", weights_only)
    root = rank_or_first(pg, dst, group_dst)
    check_list_of_root(root == pg._own, object_gather_list, "gather_list", "destination")
    size = len(pg._ranks)
    if root == pg._own:
        _check_places(object_gather_list, size, "gather_object", "object_gather_list")
    low, packed = pg._low, Packed(obj)
    every = bytearray(META_BYTES * size)
    low.gather(every if root == pg._own else None, packed.meta, root, timeout=timeout)
    if root != pg._own:
        wait_all([low.isend(each, root, tag=OBJECT_PART_TAG, timeout=timeout) for each in (packed.body, *packed.buffers)])
        packed.check()
        return
    metas = read_metas(every, size)
    sends = [low.isend(each, root, tag=OBJECT_PART_TAG, timeout=timeout) for each in (packed.body, *packed.buffers)]
    bodies = [room(body) for _, body in metas]
    wait_all([low.irecv(body, r, tag=OBJECT_PART_TAG, timeout=timeout) for r, body in enumerate(bodies)])
    parts = [rooms(body, buffers) for body, (buffers, _) in zip(bodies, metas)]
    wait_all([low.irecv(each, r, tag=OBJECT_PART_TAG, timeout=timeout) for r in range(size) for each in parts[r]])
    wait_all(sends)
    packed.check()
    assert object_gather_list is not None
    _unpack_all(pg, object_gather_list, metas, bodies, parts, "gather_object")


def scatter_object_list(scatter_object_output_list: list[Any], scatter_object_input_list: list[Any] | None = None,
                        src: int | None = None, group: AnyGroup = None, group_src: int | None = None, *,
                        weights_only: bool = False, timeout: Timeout = None) -> None:
    """Put object r of the list of `src` (0 unless said) into `scatter_object_output_list[0]` of rank r."""
    pg = member_group(group, "scatter_object_list")
    if pg is None:
        return
    check_objects(pg, "scatter_object_list", weights_only)
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = rank_or_first(pg, src, group_src)
    size, low = len(pg._ranks), pg._low
    meta = bytearray(META_BYTES)
    sends: list[Any] = []
    if root == pg._own:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        _check_count(scatter_object_input_list, size, "scatter_object_list")
        packed = Packed.all_or_none(scatter_object_input_list)
        low.scatter(meta, b"".join(each.meta for each in packed), root, timeout=timeout)
        sends = [low.isend(part, r, tag=OBJECT_PART_TAG, timeout=timeout)
                 for r, each in enumerate(packed) for part in (each.body, *each.buffers)
                 if r != root or each.problem is None]
        if packed[root].problem is not None:
            wait_all(sends)
            packed[root].check()
    else:
        low.scatter(meta, None, root, timeout=timeout)
    scatter_object_output_list[0] = _receive(pg, meta, root, OBJECT_PART_TAG, "scatter_object_list", timeout)
    wait_all(sends)


def _receive(pg: ProcessGroup, meta: Any, src: int, tag: int, operation: str, timeout: Any) -> Any:
    """The parts that follow a meta: body and buffers, as messages of one rank."""
    low = pg._low
    buffers, size = read_meta(meta)
    body = room(size)
    low.recv(body, src, tag=tag, timeout=timeout)
    check_reason(buffers, body, operation, global_rank_of(pg, src))
    parts = rooms(body, buffers)
    wait_all([low.irecv(each, src, tag=tag, timeout=timeout) for each in parts])
    return unpack(body, parts)


def send_object_list(object_list: Sequence[Any], dst: int | None = None, group: AnyGroup = None, device: Any = None,
                     group_dst: int | None = None, use_batch: bool = False, *, timeout: Timeout = None) -> None:
    """Send objects to one other rank. `device` and `use_batch` change nothing."""
    pg = member_group(group, "send_object_list")
    if pg is None:
        return
    check_objects(pg, "send_object_list")
    peer = rank_in_group(pg, dst, group_dst)
    _not_to_self(group, dst, group_dst)
    if not isinstance(object_list, (list, tuple)):
        raise TypeError(f"send_object_list: object_list must be a list, not {type(object_list)}")
    packed = Packed(list(object_list))
    low = pg._low
    wait_all([low.isend(part, peer, tag=OBJECT_TAG, timeout=timeout)
              for part in (packed.meta, packed.body, *packed.buffers)])
    packed.check()


def recv_object_list(object_list: list[Any], src: int | None = None, group: AnyGroup = None, device: Any = None,
                     group_src: int | None = None, use_batch: bool = False, *, weights_only: bool = False,
                     timeout: Timeout = None) -> int:
    """Receive as many objects as the list has places, from one rank or from anybody; the global rank that
    sent, or -1 if this process is not in the group."""
    pg = member_group(group, "recv_object_list")
    if pg is None:
        return -1
    check_objects(pg, "recv_object_list", weights_only)
    peer = sender_in_group(pg, src, group_src)
    if not isinstance(object_list, list):
        raise TypeError(f"recv_object_list: object_list must be a list, not {type(object_list)}")
    meta = bytearray(META_BYTES)
    peer = pg._low.recv(meta, peer, tag=OBJECT_TAG, timeout=timeout)
    objects = _receive(pg, meta, peer, OBJECT_TAG, "recv_object_list", timeout)
    _fill(object_list, objects, "recv_object_list", global_rank_of(pg, peer))
    return global_rank_of(pg, peer)
