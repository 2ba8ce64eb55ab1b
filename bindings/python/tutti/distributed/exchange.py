"""Groups of which only their members know: they meet by messages."""

import zlib
from datetime import timedelta

from tutti import _tutti
from tutti.distributed.held_groups import decoded, encoded
from tutti.distributed.process_group import ProcessGroup
from tutti.distributed.work import wait_all
from tutti.distributed.world import world
from tutti.errors import BackendError, Error

# Tags of our own messages lie above those that programs use.
FIRST_TAG = 0x7F000000
OBJECT_TAG = FIRST_TAG  # of lists that are sent: a recv from any rank matches only them
OBJECT_PART_TAG = FIRST_TAG + 1  # what gather_object and scatter_object_list send; the next tag is that of C++
RENDEZVOUS_TAG = FIRST_TAG + 0x800000
_LARGEST_ADDRESS = 1 << 20  # bytes; one has some hundred, and the key of a group that was dropped some ten


def make_among(parent: ProcessGroup, ranks: list[int], name: str, limit: timedelta) -> _tutti.ProcessGroup:
    """A world of its own for the listed ranks. `name`: no other group of the world has it.

    The addresses of its workers travel in a group for this alone, so that a member that does not come breaks nothing
    else; on backends that make no such group as messages of the parent.
    """
    peers = [parent._index[rank] for rank in ranks]
    try:
        rendezvous = parent._low._new_group_among(peers, name, name=f"the rendezvous of group {name}")
    except BackendError as problem:
        if problem.code != "unsupported" or parent._low.health() is not None:
            raise
        return _rendezvous(parent, ranks, parent._low, peers, RENDEZVOUS_TAG + zlib.crc32(name.encode()) % 0x7FFFFF, name, limit)
    try:
        return _rendezvous(parent, ranks, rendezvous, list(range(len(ranks))), 0, name, limit)
    finally:
        rendezvous.close()


def _parts(text: bytes) -> tuple[bytes, bytes]:
    """Splits the text of a rank: the groups that it has dropped, and its address."""
    end = 8 + int.from_bytes(text[:8], "little")
    return text[8:end], text[end:]


def _rendezvous(parent: ProcessGroup, ranks: list[int], low: _tutti.ProcessGroup, peers: list[int], tag: int, name: str,
          limit: timedelta) -> _tutti.ProcessGroup:
    """The world of these ranks, the ranks `peers` of `low`, where they exchange their addresses."""
    own = peers.index(low.rank)

    def exchange(_: str, mine: bytes) -> list[bytes]:
        with world.lock:
            keys = world.held.to_tell(ranks)
        drops = encoded(keys)
        data = len(drops).to_bytes(8, "little") + drops + (mine.encode() if isinstance(mine, str) else bytes(mine))
        sizes = [bytearray(8) for _ in peers]
        others = [position for position in range(len(peers)) if position != own]
        length = len(data).to_bytes(8, "little")
        works = [low.isend(length, peers[p], tag=tag, timeout=limit) for p in others]
        works += [low.irecv(sizes[p], peers[p], tag=tag, timeout=limit) for p in others]
        wait_all(works)
        for p, size in zip(peers, sizes):
            if int.from_bytes(size, "little") > _LARGEST_ADDRESS:
                raise Error(f"group {name}: rank {p} of {low.name} announced an address of "
                            f"{int.from_bytes(size, 'little')} bytes, which cannot be")
        texts = [bytearray(data if p == own else int.from_bytes(sizes[p], "little")) for p in range(len(peers))]
        works = [low.isend(data, peers[p], tag=tag, timeout=limit) for p in others if data]
        works += [low.irecv(texts[p], peers[p], tag=tag, timeout=limit) for p in others if texts[p]]
        wait_all(works)
        parts = [_parts(bytes(text)) for text in texts]
        with world.lock:
            world.held.take(keys, [(rank, decoded(dropped)) for rank, (dropped, _) in zip(ranks, parts)])
        return [text for _, text in parts]

    # Others may read the messages on their way, so the secret is not in them.
    secret = parent._low.derive_secret(name)
    backend = parent._low.backend
    # Of a group on MPI: a communicator of these members, of the group's own.
    options = (low.communicator, peers) if backend == "mpi" else None
    failed: list[BaseException] = []

    def kept(name: str, mine: bytes) -> list[bytes]:
        try:
            return exchange(name, mine)
        except BaseException as problem:
            failed.append(problem)
            raise

    try:
        return _tutti.init_process_group(rank=own, world_size=len(peers), exchange=kept, name=name, timeout=limit,
                                         backend=backend, backend_options=options, secret=secret or None,
                                         exchange_is_private=parent._low.authenticated)
    except Error:
        if failed:  # it says more than that the exchange has failed
            raise failed[0] from None
        raise
