"""Limits of the memory, time and stack that reading one pickle takes. A pickle names its parts again for two bytes, so whatever
copies, hashes or nests them has to be counted, or a small one takes all memory, all time or the whole stack."""

import collections
import pickle
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_DEEPEST = 5000  # tuples in tuples; pickle itself writes fewer
_DEEPEST_BARE = 2000  # containers without a trashcan in each other; the end of one takes 100 bytes of the stack or so
_ARRAY = 10  # an array counts for so many of them
_ALIKE = 100  # keys of one container with one hash
_SMALL = 1 << 60  # integers below it hash to themselves


def refused(what: str) -> pickle.UnpicklingError:
    """The error of a pickle that is not read."""
    return pickle.UnpicklingError(f"weights_only: the object {what}, which no pickle of plain data does")


class Limits:
    """The limits of one pickle with the buffers beside it. Each method raises UnpicklingError beyond a limit."""

    def __init__(self, size: int, buffers: Sequence[Any]) -> None:
        sent = size + sum(memoryview(each).nbytes for each in buffers)
        self.size = size
        self._copied = 2 * sent + (1 << 20)  # bytes; a pickle of plain data has each of its parts copied once
        self._padded = 64 * sent + (1 << 26)  # bytes
        self._steps = 256 * sent + (1 << 25)  # of some nanoseconds
        self._buffers = tuple(buffers)
        self._beside = {id(each) for each in buffers}
        self._tuples: dict[int, tuple[int, int]] = {}  # depth and weight by address, where a look does not tell them
        self._bare: dict[int, tuple[Any, list[Any] | None]] = {}
        self._alike: dict[int, dict[int, int]] = {}  # by address of the container: keys by hash

    def copy(self, size: int) -> None:
        """Counts so many bytes that are copied."""
        self._copied -= size
        if self._copied < 0:
            raise refused("makes much more of its parts than was sent")

    def pad(self, size: int) -> None:
        """So many bytes are allocated for fewer that were sent."""
        self._padded -= size
        if self._padded < 0:
            raise refused("wants much more memory than was sent")

    def work(self, steps: int) -> None:
        """Counts so many steps before they are done."""
        self._steps -= steps
        if self._steps < 0:
            raise refused("takes much more time than its size is worth")

    def is_source(self, buffer: Any) -> bool:
        """True for bytes that have one owner: not for objects, and not for a view of a view."""
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
        bits: int
        if kind is int:
            bits = key.bit_length()
            return 1 + (bits >> 6)
        if kind is tuple or kind is frozenset:
            return (self._tuples.get(id(key)) or (1, 1 + len(key)))[1]
        if kind is range:
            bits = max(key.start.bit_length(), key.stop.bit_length(), key.step.bit_length())
            return 1 + (bits >> 4)
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

    def bare(self, container: Any, objects: list[Any] | None = None) -> Any:
        """A container without a trashcan: its end calls those of its elements, and they theirs, on one stack. (list,
        tuple, dict, set, OrderedDict and Counter put it off when they nest.) `objects` are an array's for good.
        Kept until the pickle is read, so that none ends before it is known how deep they are in each other."""
        self._bare[id(container)] = container, objects
        return container

    def check_ends(self) -> None:
        """The value is whole: may it end at once? If not, it is taken apart."""
        holding = [each for each, _ in self._bare.values() if any(map(_holds, self._elements(each)))]
        if sum(self._room(id(each)) for each in holding) > _DEEPEST_BARE and self._deepest(holding) > _DEEPEST_BARE:
            self.take_apart()
            raise refused(f"nests more than {_DEEPEST_BARE} deques, {_DEEPEST_BARE} defaultdicts or "
                          f"{_DEEPEST_BARE // _ARRAY} arrays of objects")

    def _room(self, address: int) -> int:
        """The stack that it takes, counted in deques."""
        if address not in self._bare:
            return 0
        return 1 if isinstance(self._bare[address][0], (collections.deque, dict)) else _ARRAY

    def take_apart(self) -> None:
        """Empty the containers that the pickle has made, so that their owners can be freed without deep recursion."""
        held = [self._elements(each) for each, _ in self._bare.values()]
        for each, _ in self._bare.values():
            if isinstance(each, (collections.deque, dict)):
                each.clear()
            elif each.base is None:  # not a structure, which is one with its array
                each[...] = sys.modules["numpy"].zeros((), each.dtype)
        held.clear()

    def _elements(self, container: Any) -> list[Any]:
        known = self._bare.get(id(container))
        if known is not None and known[1] is not None:
            return known[1]
        if isinstance(container, dict):
            return [*container, *container.values()]
        return list(container) if _holds(container) else []

    def _deepest(self, roots: list[Any]) -> int:
        """At most so many bare containers, in deques, are in each other: heights from those that hold none upwards, and
        all that are left, which are in rings or hold them, at once."""
        holders: dict[int, list[int]] = {}
        waits_for: dict[int, int] = {}
        left = list(roots)
        while left:
            each = left.pop()
            if id(each) in waits_for:
                continue
            inner = [element for element in self._elements(each) if _holds(element)]
            waits_for[id(each)] = len(inner)
            for element in inner:
                holders.setdefault(id(element), []).append(id(each))
            left += inner
        heights = dict.fromkeys(waits_for, 0)
        ready = [each for each, count in waits_for.items() if count == 0]
        highest = 0
        while ready:
            each = ready.pop()
            del waits_for[each]
            heights[each] += self._room(each)
            highest = max(highest, heights[each])
            for holder in holders.get(each, ()):
                heights[holder] = max(heights[holder], heights[each])
                waits_for[holder] -= 1
                if waits_for[holder] == 0:
                    ready.append(holder)
        return highest + sum(map(self._room, waits_for))


def _holds(value: Any) -> bool:
    """Is it a container of any objects?"""
    if isinstance(value, (list, tuple, dict, set, frozenset, collections.deque)):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.void)) and bool(value.dtype.hasobject)
