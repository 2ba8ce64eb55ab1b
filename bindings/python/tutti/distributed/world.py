"""The groups of this process, by name. The methods of a group stand above: process_group.py."""

import functools
import operator
import os
import sys
import threading
import weakref
from typing import Any

from tutti import _tutti
from tutti.distributed.held_groups import CROWDED, HeldGroups, decoded, encoded
from tutti.distributed.stores import PrefixStore, Store

UNINITIALISED = "Default process group has not been initialized, please make sure to call init_process_group."
DESTROYED = "Invalid process group specified or has been destroyed."


def of_torchs_world() -> str:
    """What to say behind UNINITIALISED where torch.distributed has a world, by tutti.torch."""
    torch = sys.modules.get("torch.distributed") if "tutti.torch" in sys.modules else None
    if torch is None or not torch.is_available() or not torch.is_initialized():
        return ""
    return (" (torch.distributed has a world, which tutti.torch serves; tutti.distributed would have one of its own. Call the "
            "functions of torch.distributed.)")


class Group:
    """The fields of a ProcessGroup: all that this process knows of a group of its own."""

    __slots__ = ("_low", "_ranks", "_index", "_own", "_backend", "_config", "_name", "_desc", "_key", "_children",
                 "_crowded", "_known", "__weakref__")

    def __init__(self, low: _tutti.ProcessGroup, ranks: Any = (), backend: str = "", config: Any = None,
                 name: str = "", desc: str = "", key: str | None = None) -> None:
        if not isinstance(low, _tutti.ProcessGroup):
            raise TypeError("groups are made by init_process_group and new_group, which put them together; a "
                            "ProcessGroup of a store cannot be had")
        self._low = low  # of the C++ face; a stand-in while calls are coalesced
        self._ranks: list[int] = list(ranks)  # global ranks, in the order of the group's
        self._index = {rank: position for position, rank in enumerate(self._ranks)}
        self._own = low.rank
        self._backend = backend
        self._config = config
        self._name = name
        self._desc = desc
        self._key = key  # by which all members know it; None: they know it by nothing, and it lives until it is destroyed
        self._children = 0  # groups that its ranks have made of it, which all of them count alike
        self._crowded = False  # one of its ranks has so many groups that a place must be free before another is made
        self._known = False  # it was not destroyed


class World:
    """The groups of this process. A forked child has none of its parent's."""

    def __init__(self) -> None:
        self.parents: list[World] = []  # as they were at each fork; kept, because to end groups is their own process's
        self._begin()

    def _begin(self) -> None:
        self.lock = threading.RLock()  # of the tables; nobody waits for other ranks with it
        self.making = threading.RLock()  # one group after the other, of those that all ranks of the parent make
        self.pid = os.getpid()
        self.clear()

    def is_there(self) -> bool:
        """This process has a world. A fork that Python has not made is noticed here."""
        if self.pid != os.getpid():
            self.leave_parents()
        return self.default is not None

    def leave_parents(self) -> None:
        """In a forked child."""
        parent = World.__new__(World)
        parent.default, parent.groups, parent.strong, parent.held = self.default, self.groups, self.strong, self.held
        self._restore_excepthook()
        self.parents.append(parent)
        self._begin()

    def parents_default(self) -> Any:
        """The world of the process that has forked this one, or of the one before; None if none had one."""
        return next((parent.default for parent in reversed(self.parents) if parent.default is not None), None)

    def is_parents(self, group: Any) -> bool:
        """The group was one of the parent's."""
        return any(parent.groups.get(group._name) is group for parent in self.parents)

    def clear(self) -> None:
        """Forget them all."""
        for group in list(getattr(self, "groups", {}).values()):
            group._known = False
        self.default: Any = None  # a ProcessGroup, or None before init_process_group
        # By name, in the order of their making. A name keeps no group.
        self.groups: weakref.WeakValueDictionary[str, Group] = weakref.WeakValueDictionary()
        self.strong: dict[str, Group] = {}  # those without a key, and the default group
        self.held = HeldGroups()  # those with a key
        self.count = 0
        self.local_counts: dict[str, int] = {}  # by the ranks of groups with local synchronization
        self.excepthook: Any = None  # ours, and the one before it

    def next_name(self) -> str:
        """Every rank counts every group, so names are alike everywhere."""
        name = str(self.count)
        self.count += 1
        return name

    def local_name(self, ranks: list[int]) -> str:
        """The name of a group with local synchronization. Ranks outside of it do not count it, so it comes from its
        ranks and from how many groups of these ranks were asked for, which all members count alike."""
        import hashlib
        key = ",".join(map(str, ranks))
        with self.lock:
            times = self.local_counts.get(key, 0)
            self.local_counts[key] = times + 1
        base = hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()
        return base if times == 0 else f"{base}_{times}"

    def free_name(self, base: str) -> str:
        """The name, with a number behind it if a group has it."""
        name, times = base, 0
        while name in self.groups:
            times += 1
            name = f"{base}_{times}"
        return name

    def child_key(self, parent: Group) -> str | None:
        """That of the next group that the ranks of `parent` make of it."""
        base = "" if parent is self.default and parent._key is None else parent._key
        parent._children += 1
        return None if base is None else f"{base}/{parent._children}"

    def add(self, group: Any) -> Any:
        """The group, known from now on."""
        self.groups[group._name] = group
        group._known = True
        if group._key is None:
            self.strong[group._name] = group
        else:
            self.held.add(group)
        return group

    def forget(self, group: Group) -> None:
        """From now on the group is as one that was destroyed; it lives as long as the program holds it."""
        self.groups.pop(group._name, None)
        self.strong.pop(group._name, None)
        group._known = False

    def make(self, parent: Group, how: tuple[Any, ...] = (), **options: Any) -> Any:
        """The group below of some ranks of `parent`, which all call it and tell each other which groups they have dropped;
        those that no member holds any more are given back. `how`: (ranks,) as new_group, (color, key) as split, or ()."""
        with self.lock:
            keys, live = self.held.to_tell(parent._ranks), self.held.live()
        made, most, texts = parent._low._exchange_drops(live, encoded(keys), list(how), **options)
        with self.lock:
            self.held.take(keys, [(rank, decoded(text)) for rank, text in zip(parent._ranks, texts)])
        parent._crowded = most >= CROWDED
        return made

    def destroy(self, group: Group) -> None:
        """Let go of a group, of all if it is the default one. ValueError for one that is not known any more."""
        if not group._known:
            raise ValueError(DESTROYED)
        with self.lock:
            if group is not self.default:
                self.forget(group)
                group._low.close()
                if group._key is not None:
                    self.held.note(group)
                return
            lows = self.lows()
            self._restore_excepthook()
            self.clear()
            for low in lows:
                low.close()

    def lows(self) -> list[Any]:
        """Those of all groups below, also of those that the program has dropped; the default one last."""
        return [*self.held.lows(), *(group._low for group in reversed(self.strong.values()))]

    def _restore_excepthook(self) -> None:
        # A program that has set its own since keeps it.
        if self.excepthook is not None and sys.excepthook is self.excepthook[0]:
            sys.excepthook = self.excepthook[1]

    def store(self) -> Store:
        """A part of the store in which the default group met, for the program's own keys. ValueError before
        init_process_group."""
        if self.default is None:
            raise ValueError(UNINITIALISED + of_torchs_world())
        low = self.default._low.store
        assert low is not None, "init_process_group has met in a store"
        return PrefixStore("default_pg", low)


world = World()
# No function of ours: it would keep this module, and so the groups, beyond the exit.
os.register_at_fork(after_in_child=functools.partial(operator.methodcaller("leave_parents"), weakref.proxy(world)))
