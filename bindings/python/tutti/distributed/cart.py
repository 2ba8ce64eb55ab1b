"""Ranks of a group as the places of a grid, as of MPI_Cart_create."""

from collections.abc import Sequence
from typing import Any, Literal

from tutti import _tutti
from tutti._times import Timeout
from tutti.distributed.p2p import _start_batch
from tutti.distributed.process_group import AnyGroup, ProcessGroup, global_rank_of, is_non_member, member_group
from tutti.distributed.work import Work


class CartGroup:
    """A grid of the ranks of a group, which `cart` makes. Coordinates are row-major: the last one of the next rank is
    one more. Ranks are global ones, or NO_RANK beyond an open border, which every send and recv takes."""

    def __init__(self, pg: ProcessGroup, low: _tutti.CartGroup) -> None:
        self._pg = pg
        self._low = low

    @property
    def dims(self) -> list[int]:
        """Ranks along each dimension."""
        return self._low.dims

    def coords(self, rank: int | None = None) -> list[int]:
        """The coordinates of a rank of the world, or of this one."""
        return self._low.coords(self._pg._own if rank is None else self._pg._index.get(rank, -1))

    def rank(self, coords: Sequence[int]) -> int:
        """The rank at these coordinates; those of a periodic dimension wrap around."""
        return global_rank_of(self._pg, self._low.rank(coords))

    def shift(self, dimension: int, displacement: int = 1) -> tuple[int, int]:
        """The ranks `displacement` places before and after this one: source and destination of a `sendrecv` in which
        each rank takes part."""
        source, destination = self._low.shift(dimension, displacement)
        return global_rank_of(self._pg, source), global_rank_of(self._pg, destination)

    def neighbor_all_to_all(self, outputs: Sequence[Any], inputs: Sequence[Any], tag: int = 0, *,
                            timeout: Timeout = None) -> list[Work]:
        """Send each neighbour a tensor and receive one from it, as one batch: from and to the lower neighbour of
        dimension 0, the upper one, then those of dimension 1, ... At an open border a tensor may be None. A Work for
        each message."""
        neighbors = 2 * len(self.dims)
        if len(outputs) != neighbors or len(inputs) != neighbors:
            raise ValueError(f"neighbor_all_to_all: a grid of {len(self.dims)} dimensions has {neighbors} neighbours, but "
                             f"there are {len(outputs)} outputs and {len(inputs)} inputs")
        calls: list[tuple[Literal["send", "recv"], Any, int | None, int | None]] = []
        for i in range(neighbors):
            lower, upper = self._low.shift(i // 2)
            ahead, behind = (upper, lower) if i % 2 else (lower, upper)
            # Both ranks of a pair have its messages in one order, though both neighbours may be one rank.
            if behind != _tutti.NO_RANK:
                calls.append(("recv", outputs[i ^ 1], behind, tag))
            if ahead != _tutti.NO_RANK:
                calls.append(("send", inputs[i], ahead, tag))
        return _start_batch(self._pg, calls, timeout)


def cart(dims: Sequence[int], periodic: Sequence[bool] = (), group: AnyGroup = None) -> CartGroup:
    """Lay a grid over a group: `cart([4, 2], [True, False])`. It must have one place for each rank; a 0 is chosen, so
    that all dimensions are as alike as they can be. `periodic`: whether the ends of each dimension are neighbours.
    Sends nothing. ValueError outside of the group."""
    pg = None if is_non_member(group) else member_group(group, "cart")
    if pg is None:
        raise ValueError("cart: this process is not in the group")
    return CartGroup(pg, pg._low.cart(list(dims), list(periodic)))
