"""Gives groups back that no member holds any more."""

import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# As many groups has a rank (src/transport/shm/layout.hpp).
MOST = 4096
# From so many on, members tell each other before they make another group what they have dropped. Some may have been made
# of other parents since a member was asked.
CROWDED = MOST - 32


class _Ref(weakref.ref):  # type: ignore[type-arg]  # of a Group
    """Knows its group's key."""

    __slots__ = ("key",)
    key: str

    def __new__(cls, group: Any, died: Callable[["_Ref"], object]) -> "_Ref":
        made = super().__new__(cls, group, died)
        made.key = group._key
        return made


class _Held:
    """A group that its members have made, until all of them have dropped it."""

    __slots__ = ("low", "ref", "ranks", "missing", "told")

    def __init__(self, group: Any, ref: _Ref) -> None:
        self.low = group._low
        self.ref = ref
        self.ranks = frozenset(group._ranks)
        self.missing = set(self.ranks) - {group._ranks[group._own]}  # members that may still use it
        self.told = False  # the others know that we do not

    def is_dropped(self) -> bool:
        """Nothing of this process can use it any more: no object of it is left, and no Work; or it was destroyed."""
        return self.low.closed or self.ref() is None and not self.low._is_shared


class HeldGroups:
    """The groups of this process that have a key, by which all members know them, also those that the program has
    dropped. Each new group tells the members of its parent which ones a rank has dropped. A group is given back on a
    rank when all its members have told that, so that a rank that still uses it gets no error.

    Threads: under the lock of the world, but for the note of a dropped group.
    """

    def __init__(self) -> None:
        self._held: dict[str, _Held] = {}  # in the order of their making
        self._noted: deque[str] = deque()  # keys; filled where an object ends, on any thread
        self._dropped: set[str] = set()  # those not told yet

    def add(self, group: Any) -> None:
        """From now on the group lives until all its members have dropped it."""
        noted = self._noted
        self._held[group._key] = _Held(group, _Ref(group, lambda ref: noted.append(ref.key)))

    def note(self, group: Any) -> None:
        """The program has destroyed the group."""
        self._noted.append(group._key)

    def lows(self) -> list[Any]:
        """All of them, the last one first."""
        return [held.low for held in reversed(self._held.values())]

    def live(self) -> int:
        """How many places they take."""
        return len(self._held) - sum(bool(self._held[key].low.closed) for key in self._dropped)

    def to_tell(self, ranks: Iterable[int]) -> list[str]:
        """The keys that these ranks, all of them, are to be told: of the groups among them that this rank has dropped."""
        while self._noted:
            key = self._noted.popleft()
            if key in self._held and not self._held[key].told:
                self._dropped.add(key)
        every = frozenset(ranks)
        return [key for key in self._dropped if self._held[key].ranks <= every and self._held[key].is_dropped()]

    def take(self, keys: Sequence[str], heard: Iterable[tuple[int, Iterable[str]]]) -> None:
        """They were told `keys`, and each has told its own: gives back what all members have dropped."""
        for key in keys:
            if key in self._held:
                self._held[key].told = True
                self._dropped.discard(key)
        touched = list(keys)
        for rank, theirs in heard:
            for key in theirs:
                if key in self._held:
                    self._held[key].missing.discard(rank)
                    touched.append(key)
        for key in touched:
            held = self._held.get(key)
            if held is not None and held.told and (held.low.closed or not held.missing):
                held.low.close()
                del self._held[key]

    def explained(self) -> str:
        """Says what holds the places of this rank, for the error that there is no more."""
        dropped = [held for held in self._held.values() if not held.low.closed and held.ref() is None]
        text = f"{self.live() - len(dropped)} are in use on this rank"
        if dropped:
            first = next((held for held in dropped if held.told and held.missing), None)
            text += f", {len(dropped)} were dropped here"
            if first is not None:
                text += (f" and are given back when other members drop them, too (the first is {first.low.name!r}, which rank "
                         f"{min(first.missing)} still holds)")
        return text


def encoded(keys: Iterable[str]) -> bytes:
    """As they travel."""
    return "\n".join(keys).encode()


def decoded(text: bytes) -> list[str]:
    """The keys that another rank has encoded."""
    return text.decode(errors="replace").split("\n") if text else []
