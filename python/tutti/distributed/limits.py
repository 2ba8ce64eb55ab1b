"""What reading one pickle may cost beyond its own size. A pickle names its parts again for two bytes, so whatever
copies, hashes or nests them has to be counted, or a small one takes all memory, all time or the whole stack."""

import collections
import pickle
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_DEEPEST = 5000  # tuples in tuples; pickle itself writes fewer
_DEEPEST_BARE = 32  # what has no trashcan in what has none
_ALIKE = 100  # keys of one container with one hash
_SMALL = 1 << 60  # integers below it hash to themselves


def refused(what: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(f"weights_only: the object {what}, which no pickle of plain data does")


class Limits:
    """Of one pickle with the buffers beside it. Each method raises UnpicklingError for what is too much."""

    def __init__(self, size: int, buffers: Sequence[Any]) -> None:
        sent = size + sum(memoryview(each).nbytes for each in buffers)
        self.size = size
        self._copied = 2 * sent + (1 << 20)  # bytes; a pickle of plain data has each of its parts copied once
        self._padded = 64 * sent + (1 << 26)  # bytes
        self._steps = 256 * sent + (1 << 25)  # of some nanoseconds
        self._buffers = tuple(buffers)
        self._beside = {id(each) for each in buffers}
        self._tuples: dict[int, tuple[int, int]] = {}  # depth and weight by address, where a look does not tell them
        self._bare: dict[int, _Bare] = {}
        self._alike: dict[int, dict[int, int]] = {}  # by address of the container: keys by hash

    def copy(self, size: int) -> None:
        """So many bytes of what was sent are copied."""
        self._copied -= size
        if self._copied < 0:
            raise refused("makes much more of its parts than was sent")

    def pad(self, size: int) -> None:
        """So many bytes are allocated for fewer that were sent."""
        self._padded -= size
        if self._padded < 0:
            raise refused("wants much more memory than was sent")

    def work(self, steps: int) -> None:
        """What follows takes so many steps."""
        self._steps -= steps
        if self._steps < 0:
            raise refused("takes much more time than its size is worth")

    def is_source(self, buffer: Any) -> bool:
        """Bytes and nothing else, whose owner nobody can change: no objects, and no view of a view of ..."""
        if type(buffer) is memoryview:
            buffer = buffer.obj
        return type(buffer) in (bytes, bytearray) or id(buffer) in self._beside

    def made(self, value: Any) -> None:
        """A tuple or frozenset: its hash calls itself without a limit and, in a tuple, remembers nothing."""
        depth, weight = 1, 1
        for each in value:
            kind = type(each)
            if kind is tuple or kind is frozenset:
                below, more = self._tuples.get(id(each)) or (1, 1 + len(each))
                depth = max(depth, 1 + below)
                weight += more
            elif kind is str or kind is bytes or kind is float:
                weight += 1
            else:
                weight += self._weight(each)
        if depth > _DEEPEST:
            raise refused(f"nests more than {_DEEPEST} tuples")
        if depth > 1 or weight > 1 + len(value):
            self._tuples[id(value)] = depth, weight
        else:
            self._tuples.pop(id(value), None)  # of one that is gone and lay there

    def _weight(self, key: Any) -> int:
        """The steps of its hash."""
        kind = type(key)
        if kind is int:
            return 1 + (key.bit_length() >> 6)
        if kind is tuple or kind is frozenset:
            return (self._tuples.get(id(key)) or (1, 1 + len(key)))[1]
        if kind is range:
            return 1 + (max(key.start.bit_length(), key.stop.bit_length(), key.step.bit_length()) >> 4)
        return 1 + len(key) if isinstance(key, tuple) else 1

    def keys(self, container: Any, keys: Iterable[Any]) -> None:
        """They are hashed, and come into `container` (None: one that is made of them all). Texts hash at random,
        once; of everything else a peer can have as many alike as it wants, each of which is compared with all."""
        alike = {} if container is None else self._alike.setdefault(id(container), {})
        for key in keys:
            kind = type(key)
            if kind is str or kind is bytes:
                continue
            if kind is int and -_SMALL < key < _SMALL:
                continue
            self.work(2 * self._weight(key))  # here, and by the container
            place = hash(key)
            alike[place] = alike.get(place, 0) + 1
            if alike[place] > _ALIKE:
                raise refused("has keys with one hash")

    def hold(self, parent: Any, children: Iterable[Any]) -> None:
        """They come into `parent`, a container without a trashcan: it ends by ending them, and they theirs, on one
        stack. A pickle of plain data completes what it puts into others, so the depth is known here."""
        depth = 1
        for child in children:
            if self.is_bare(child):
                held = self._bare.setdefault(id(child), _Bare(child))
                held.sealed = True
                depth = max(depth, 1 + held.depth)
        if depth == 1:
            return
        mine = self._bare.setdefault(id(parent), _Bare(parent))
        if depth > mine.depth and mine.sealed:
            raise refused(f"puts a {type(parent).__name__} into others before it is whole")
        mine.depth = max(mine.depth, depth)
        if mine.depth > _DEEPEST_BARE:
            raise refused(f"nests more than {_DEEPEST_BARE} of deque, defaultdict and arrays of objects")

    @staticmethod
    def is_bare(value: Any) -> bool:
        """A container whose end calls that of its elements at once. Those with a trashcan (list, tuple, dict, set,
        and what derives from dict in Python) put it off when they nest."""
        kind = type(value)
        if kind is collections.deque or kind is collections.defaultdict:
            return True
        numpy = sys.modules.get("numpy")
        return numpy is not None and issubclass(kind, (numpy.ndarray, numpy.void)) and bool(value.dtype.hasobject)


class _Bare:
    """How deep a bare container nests. Keeps it, so that nothing else gets its address."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.depth = 1
        self.sealed = False  # it is in another
