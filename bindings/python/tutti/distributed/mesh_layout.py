"""The places of a mesh's ranks: for each dimension, how far its neighbours lie apart in the list of all ranks."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple


class Axis(NamedTuple):
    """One dimension, as the extents and steps that it was put together from, the outermost first.

    Extents of 1 are left out and neighbours that continue each other are one, so that equal dimensions compare equal.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> "Axis":
        """Of (extent, step), the outermost first."""
        kept: list[tuple[int, int]] = []
        for extent, step in pairs:
            if extent == 1:
                continue
            if kept and kept[-1][1] == extent * step:
                kept[-1] = (kept[-1][0] * extent, step)
            else:
                kept.append((extent, step))
        return cls(tuple(extent for extent, _ in kept), tuple(step for _, step in kept))

    def pairs(self) -> Iterator[tuple[int, int]]:
        """(extent, step), the outermost first."""
        return zip(self.shape, self.stride)

    def numel(self) -> int:
        """How many places it has."""
        return math.prod(self.shape)

    def offsets(self) -> list[int]:
        """The places, seen from the first one, in row-major order."""
        return [sum(inside * step for inside, step in zip(place, self.stride))
                for place in product(*map(range, self.shape))]

    def is_sorted(self) -> bool:
        """The steps do not grow from the outermost inwards."""
        return all(outer >= inner for outer, inner in zip(self.stride, self.stride[1:]))

    def is_free_of_overlaps(self) -> bool:
        """No place is met twice."""
        ordered = sorted(((step, extent) for extent, step in self.pairs()), reverse=True)
        return all(outer[0] % (inner[0] * inner[1]) == 0 for outer, inner in zip(ordered, ordered[1:]))

    def divided(self, sizes: Sequence[int]) -> "list[Axis]":
        """This dimension as several, of these sizes. ValueError where the parts of it do not divide so."""
        rest = list(self.pairs())
        made: list[Axis] = []
        for size in reversed(sizes):
            taken: list[tuple[int, int]] = []
            wanted = size
            while wanted > 1:
                extent, step = rest.pop()
                part = math.gcd(extent, wanted)
                if part == 1 or (part < extent and part < wanted):
                    raise ValueError(f"a dimension of {self.shape} with steps {self.stride} cannot be divided into "
                                     f"{tuple(sizes)}")
                if part < extent:
                    rest.append((extent // part, step * part))
                taken.insert(0, (part, step))
                wanted //= part
            made.insert(0, Axis.of(taken))
        return made


@dataclass(frozen=True)
class MeshLayout:
    """All dimensions of a mesh."""

    axes: tuple[Axis, ...]

    @classmethod
    def row_major(cls, sizes: Sequence[int]) -> "MeshLayout":
        """Of a mesh that has all ranks of the list, the last dimension running fastest."""
        return cls(tuple(Axis.of([(size, math.prod(sizes[number + 1:]))]) for number, size in enumerate(sizes)))

    def __len__(self) -> int:
        return len(self.axes)

    def __iter__(self) -> Iterator[Axis]:
        return iter(self.axes)

    def __getitem__(self, number: int) -> Axis:
        return self.axes[number]

    @property
    def top_level_sizes(self) -> tuple[int, ...]:
        """Ranks along each dimension."""
        return tuple(axis.numel() for axis in self.axes)

    def numel(self) -> int:
        """Ranks in the mesh."""
        return math.prod(self.top_level_sizes)

    def cosize(self) -> int:
        """Places from the first one to the last, those between included."""
        return 1 + sum((extent - 1) * step for axis in self.axes for extent, step in axis.pairs())

    def collapse(self) -> Axis:
        """All dimensions as one."""
        return Axis.of(pair for axis in self.axes for pair in axis.pairs())

    def sisters(self, ranks: Sequence[int]) -> list[list[int]]:
        """All meshes of this layout that the list of ranks divides into, each in row-major order."""
        offsets, met, found = self.collapse().offsets(), set(), []
        for first in range(len(ranks)):
            if first not in met:
                places = [first + offset for offset in offsets]
                met.update(places)
                found.append([ranks[place] for place in places])
        return found
