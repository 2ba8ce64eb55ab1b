"""From one rank to another."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from tutti._times import Timeout
from tutti.distributed.process_group import (AnyGroup, ProcessGroup, global_rank_of, is_non_member, member_group,
                                             rank_in_group, sender_in_group)
from tutti.distributed.tensors import check_single, dtype_of, known, octets_of, shape_of
from tutti.distributed.work import Work, wait_all
from tutti.distributed.world import world
from tutti.errors import UnusableArrayError


def _moved(call: Callable[..., Any], tensor: Any, peer: int | None, tag: int | None, timeout: Timeout) -> Any:
    """The call; for an element type that tutti does not have (float8_e8m0fnu, bits8), with the tensor's bytes."""
    try:
        return call(tensor, peer, tag=tag, timeout=timeout)
    except UnusableArrayError:
        octets = octets_of(tensor)
        if octets is None:
            raise
        return call(octets, peer, tag=tag, timeout=timeout)


def _not_to_self(group: Any, dst: int | None, group_dst: int | None) -> None:
    pg = world.default if group is None else group
    if isinstance(pg, ProcessGroup) and rank_in_group(pg, dst, group_dst) == pg._own:
        raise ValueError("Invalid destination rank: destination rank should not be the same as the rank of the "
                         "current process.")


def send(tensor: Any, dst: int | None = None, group: AnyGroup = None, tag: int = 0, group_dst: int | None = None, *,
         timeout: Timeout = None) -> None:
    """Send to one other rank; returns when the tensor may be used again. `dst` is a global rank,
    `group_dst` one of the group."""
    pg = member_group(group, "send")
    if pg is None:
        return
    peer = rank_in_group(pg, dst, group_dst)
    if peer == pg._own:
        _not_to_self(group, dst, group_dst)
    if type(tensor) not in known:
        check_single(tensor, "tensor")
    _moved(pg._low.send, tensor, peer, tag, timeout)


def recv(tensor: Any, src: int | None = None, group: AnyGroup = None, tag: int | None = 0, group_src: int | None = None, *,
         timeout: Timeout = None) -> int:
    """Receive from one rank, or from any; returns the sender's global rank, or -1 if this process is not in the group.
    A `tag` of None is any."""
    if type(tensor) not in known:
        check_single(tensor, "tensor")
    pg = member_group(group, "irecv")
    if pg is None:
        return -1
    peer = sender_in_group(pg, src, group_src)
    return global_rank_of(pg, _moved(pg._low.recv, tensor, peer, tag, timeout))


def isend(tensor: Any, dst: int | None = None, group: AnyGroup = None, tag: int = 0, group_dst: int | None = None, *,
          timeout: Timeout = None) -> Work | None:
    """As send, without waiting; to oneself too."""
    pg = None if is_non_member(group) else member_group(group, "isend")
    peer = 0 if pg is None else rank_in_group(pg, dst, group_dst)
    if type(tensor) not in known:
        check_single(tensor, "tensor")
    if pg is None:
        member_group(group, "isend")  # warns
        return None
    return Work(_moved(pg._low.isend, tensor, peer, tag, timeout))


def irecv(tensor: Any, src: int | None = None, group: AnyGroup = None, tag: int | None = 0, group_src: int | None = None, *,
          timeout: Timeout = None) -> Work | None:
    """As recv, without waiting."""
    if type(tensor) not in known:
        check_single(tensor, "tensor")
    pg = member_group(group, "irecv")
    if pg is None:
        return None
    peer = sender_in_group(pg, src, group_src)
    return Work(_moved(pg._low.irecv, tensor, peer, tag, timeout))


class P2POp:
    """One isend or irecv of a batch. `peer` is a global rank, `group_peer` one of the group."""

    def __init__(self, op: Callable[..., Any], tensor: Any, peer: int | None = None, group: AnyGroup = None,
                 tag: int | None = 0, group_peer: int | None = None) -> None:
        if op is not isend and op is not irecv:
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``tutti.distributed.isend`` or "
                             "``tutti.distributed.irecv``.")
        check_single(tensor, "tensor")
        self.op = op
        self.tensor = tensor
        self.tag = tag
        self.group: Any = group
        pg = None if is_non_member(group) else member_group(group, "P2POp")
        if pg is None:
            self.peer, self.group_peer = peer, group_peer
            return
        self.group = pg
        self.group_peer = rank_in_group(pg, peer, group_peer)
        self.peer = pg._ranks[self.group_peer] if 0 <= self.group_peer < len(pg._ranks) else self.group_peer

    def __repr__(self) -> str:
        if not isinstance(self.group, ProcessGroup):
            return f"P2POp({self.op.__name__} group={self.group})"
        own, theirs = self.group._own, self.group_peer
        src, dst = (own, theirs) if self.op is isend else (theirs, own)
        return (f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={src}, group_dst={dst},  "
                f"{shape_of(self.tensor)}, {getattr(self.tensor, 'dtype', None)})")


def batch_isend_irecv(p2p_op_list: Sequence[P2POp], *, timeout: Timeout = None) -> list[Work]:
    """Start all of them; a Work for each. Where one is wrong none is started."""
    if not isinstance(p2p_op_list, (list, tuple)) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type "
                         "``tutti.distributed.P2POp``.")
    if not p2p_op_list:
        return []
    group = p2p_op_list[0].group
    if any(op.group is not group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    pg = member_group(group, "batch_isend_irecv")
    if pg is None:
        return []
    return _start_batch(pg, [("send" if op.op is isend else "recv", op.tensor, op.group_peer, op.tag)
                             for op in p2p_op_list], timeout)


def _start_batch(pg: ProcessGroup, calls: list[tuple[Literal["send", "recv"], Any, int | None, int | None]],
                 timeout: Timeout) -> list[Work]:
    try:
        return [Work(low) for low in pg._low.batch_isend_irecv(calls, timeout=timeout)]
    except UnusableArrayError:
        moved = [octets_of(tensor) if dtype_of(tensor).startswith("torch.") else None for _, tensor, *_ in calls]
        if not any(octets is not None for octets in moved):
            raise
        calls = [(way, tensor if octets is None else octets, peer, tag)
                 for (way, tensor, peer, tag), octets in zip(calls, moved)]
        return [Work(low) for low in pg._low.batch_isend_irecv(calls, timeout=timeout)]


def sendrecv(output: Any, src: int | None, input: Any, dst: int, group: AnyGroup = None, send_tag: int = 0,
             recv_tag: int | None = 0, *, timeout: Timeout = None) -> int:
    """Receive one tensor and send another, both at once: ranks that all call it do not block each other, however large
    the messages are. Returns the sender's global rank, or -1 if this process is not in the group. The tensors must
    not share memory."""
    check_single(output, "output")
    check_single(input, "input")
    pg = member_group(group, "sendrecv")
    if pg is None:
        return -1
    pg._low._refuse_shared(output, input)
    works = _start_batch(pg, [("recv", output, sender_in_group(pg, src, None), recv_tag),
                              ("send", input, rank_in_group(pg, dst, None), send_tag)], timeout)
    wait_all(works)
    return global_rank_of(pg, works[0].source_rank())
