"""Operations on any Python object. They wait; objects travel as pickles.

Unpickling runs what the sender names, so it is for peers that are trusted: members of the job, which have
proved to know its secret. In a group that is not authenticated these operations are refused.
A small object is one message. Big arrays and tensors travel from their memory into memory, uncopied.

A rank whose object cannot be pickled sends the reason instead, and raises its own exception at the end. The others, as far as
they would get the object, raise InvalidArgument with the rank and the reason. Their lists stay as they are, and the group is
usable.
"""

from collections.abc import Callable, Sequence
from pickle import loads
from typing import Any, TypeAlias

from tutti._times import Timeout
from tutti.distributed.exchange import OBJECT_PART_TAG, OBJECT_TAG
from tutti.distributed.process_group import (AnyGroup, ProcessGroup, global_rank_of, member_group, rank_in_group, sender_in_group,
                                             rank_or_first)
from tutti.distributed.collectives import check_list_of_root
from tutti.distributed.p2p import _not_to_self
from tutti.distributed.pickling import HEAD_BYTES, Arriving, Packed, read_heads
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
        pg._low.broadcast(packed.head, root, timeout=timeout)
        late = [packed.body] if packed.late else []
        for parts in (late, packed.buffers):
            _move([(part, root) for part in parts], _broadcasts(pg, timeout))
        packed.check()
        return
    head = bytearray(HEAD_BYTES)
    pg._low.broadcast(head, root, timeout=timeout)
    objects = _object_of(pg, head, root, "broadcast_object_list", _broadcasts(pg, timeout))
    _fill(object_list, objects, "broadcast_object_list", pg, root)


# Moves a part from or to a rank of the group, and waits for that or, if the last argument is true, gives a Work.
_Mover: TypeAlias = Callable[[Any, int, bool], Any]


def _broadcasts(pg: ProcessGroup, timeout: Timeout) -> _Mover:
    return lambda part, root, later: pg._low.broadcast(part, root, timeout=timeout, async_op=later)


def _sends(pg: ProcessGroup, tag: int, timeout: Timeout) -> _Mover:
    low = pg._low
    return lambda part, r, later: (low.isend if later else low.send)(part, r, tag=tag, timeout=timeout)


def _recvs(pg: ProcessGroup, tag: int, timeout: Timeout) -> _Mover:
    low = pg._low
    return lambda part, r, later: (low.irecv if later else low.recv)(part, r, tag=tag, timeout=timeout)


def _move(parts: Sequence[tuple[Any, int]], move: _Mover) -> None:
    """Moves all parts. A single one is a blocking call, which costs less."""
    if len(parts) == 1:
        move(*parts[0], False)
    elif parts:
        wait_all([move(part, r, True) for part, r in parts])


def _object_of(pg: ProcessGroup, head: Any, src: int, operation: str, move: _Mover) -> Any:
    """The object of one rank of the group, whose head has come."""
    one = read_heads(head)[0]
    if isinstance(one, bytes):
        return loads(one)
    _receive([one], [src], move)
    return _values(pg, [one], [src], operation)[0]


def _receive(objects: list[bytes | Arriving], sources: Sequence[int], move: _Mover) -> None:
    """Receives the parts that follow the heads of these ranks of the group."""
    if Arriving in map(type, objects):
        arriving = [(one, r) for one, r in zip(objects, sources) if isinstance(one, Arriving)]
        _move([(one.body, r) for one, r in arriving if one.late], move)
        _move([(part, r) for one, r in arriving for part in one.make_room()], move)


def _values(pg: ProcessGroup, objects: list[bytes | Arriving], sources: Sequence[int], operation: str) -> list[Any]:
    """The objects of these ranks of the group; if one of them has sent a reason instead, its error."""
    if Arriving in map(type, objects):
        for one, r in zip(objects, sources):
            if isinstance(one, Arriving):
                one.check_reason(operation, global_rank_of(pg, r))
    return [loads(one) if isinstance(one, bytes) else one.value() for one in objects]


def _fill(object_list: list[Any], objects: Any, operation: str, pg: ProcessGroup, src: int) -> None:
    if not isinstance(objects, list) or len(objects) != len(object_list):
        count = len(objects) if isinstance(objects, list) else "no list of"
        raise ValueError(f"{operation}: rank {global_rank_of(pg, src)} sent {count} objects, but the list here has {len(object_list)} "
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
    heads = bytearray(HEAD_BYTES * size)
    low.all_gather(heads, packed.head, timeout=timeout)
    objects = read_heads(heads)
    if Arriving in map(type, objects):
        arriving = {r: one for r, one in enumerate(objects) if isinstance(one, Arriving)}
        if any(one.late for one in arriving.values()):
            bodies = [arriving[r].body if r in arriving and arriving[r].late else bytearray() for r in range(size)]
            low.all_gather_list(bodies, packed.body if packed.late else b"", timeout=timeout)
        works = []
        for r, one in arriving.items():
            for position, part in enumerate(one.make_room()):
                if r == pg._own:  # an object of this rank is unpickled from a copy, as everything else is
                    memoryview(part)[:] = packed.buffers[position]
                works.append(low.broadcast(part, r, timeout=timeout, async_op=True))
        wait_all(works)
    packed.check()
    object_list[:size] = _values(pg, objects, range(size), "all_gather_object")


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
    heads = bytearray(HEAD_BYTES * size)
    low.all_to_all(heads, b"".join([each.head for each in packed]), timeout=timeout)
    objects = read_heads(heads)
    works = [low.isend(part, r, tag=OBJECT_PART_TAG, timeout=timeout) for r, each in enumerate(packed) for part in each.rest]
    _receive(objects, range(size), _recvs(pg, OBJECT_PART_TAG, timeout))
    wait_all(works)
    packed[0].check()
    output_object_list[:size] = _values(pg, objects, range(size), "all_to_all_object")


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
    heads = bytearray(HEAD_BYTES * size) if root == pg._own else None
    low.gather(heads, packed.head, root, timeout=timeout)
    if heads is None:
        _move([(part, root) for part in packed.rest], _sends(pg, OBJECT_PART_TAG, timeout))
        packed.check()
        return
    works = [low.isend(part, root, tag=OBJECT_PART_TAG, timeout=timeout) for part in packed.rest]
    objects = read_heads(heads)
    _receive(objects, range(size), _recvs(pg, OBJECT_PART_TAG, timeout))
    wait_all(works)
    packed.check()
    assert object_gather_list is not None
    object_gather_list[:size] = _values(pg, objects, range(size), "gather_object")


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
    head = bytearray(HEAD_BYTES)
    sends: list[Any] = []
    if root == pg._own:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        _check_count(scatter_object_input_list, size, "scatter_object_list")
        packed = Packed.all_or_none(scatter_object_input_list)
        low.scatter(head, b"".join([each.head for each in packed]), root, timeout=timeout)
        sends = [low.isend(part, r, tag=OBJECT_PART_TAG, timeout=timeout)
                 for r, each in enumerate(packed) for part in each.rest
                 if r != root or each.problem is None]
        if packed[root].problem is not None:
            wait_all(sends)
            packed[root].check()
    else:
        low.scatter(head, None, root, timeout=timeout)
    scatter_object_output_list[0] = _object_of(pg, head, root, "scatter_object_list", _recvs(pg, OBJECT_PART_TAG, timeout))
    wait_all(sends)


def send_object_list(object_list: Sequence[Any], dst: int | None = None, group: AnyGroup = None, device: Any = None,
                     group_dst: int | None = None, use_batch: bool = False, *, timeout: Timeout = None) -> None:
    """Send objects to one other rank. `device` and `use_batch` change nothing."""
    pg = member_group(group, "send_object_list")
    if pg is None:
        return
    check_objects(pg, "send_object_list")
    peer = rank_in_group(pg, dst, group_dst)
    if peer == pg._own:
        _not_to_self(group, dst, group_dst)
    if not isinstance(object_list, (list, tuple)):
        raise TypeError(f"send_object_list: object_list must be a list, not {type(object_list)}")
    packed = Packed(list(object_list))
    pg._low.send(packed.head, peer, tag=OBJECT_TAG, timeout=timeout)
    _move([(part, peer) for part in packed.rest], _sends(pg, OBJECT_TAG, timeout))
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
    head = bytearray(HEAD_BYTES)
    peer = pg._low.recv(head, peer, tag=OBJECT_TAG, timeout=timeout)
    objects = _object_of(pg, head, peer, "recv_object_list", _recvs(pg, OBJECT_TAG, timeout))
    _fill(object_list, objects, "recv_object_list", pg, peer)
    return global_rank_of(pg, peer)
