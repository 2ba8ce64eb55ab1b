"""The groups of this process, by name. The methods of a group stand above: process_group.py."""

import sys
import threading
from typing import Any

from tutti import _tutti
from tutti.distributed.stores import PrefixStore, Store

UNINITIALISED = "Default process group has not been initialized, please make sure to call init_process_group."
DESTROYED = "Invalid process group specified or has been destroyed."


class Group:
    """The fields of a ProcessGroup: all that this process knows of a group of its own."""

    __slots__ = ("_low", "_ranks", "_index", "_own", "_backend", "_config", "_name", "_desc", "__weakref__")

    def __init__(self, low: _tutti.ProcessGroup, ranks: Any = (), backend: str = "", config: Any = None,
                 name: str = "", desc: str = "") -> None:
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


class World:
    """The groups of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.clear()

    def clear(self) -> None:
        """Forget them all."""
        self.default: Any = None  # a ProcessGroup, or None before init_process_group
        self.groups: dict[str, Group] = {}  # by name, in the order of their making
        self.count = 0
        self.excepthook: Any = None  # ours, and the one before it

    def next_name(self) -> str:
        """Every rank counts every group, so names are alike everywhere."""
        name = str(self.count)
        self.count += 1
        return name

    def free_name(self, base: str) -> str:
        """The name, with a number behind it if a group has it."""
        name, times = base, 0
        while name in self.groups:
            times += 1
            name = f"{base}_{times}"
        return name

    def add(self, group: Any) -> Any:
        """The group, known from now on."""
        self.groups[group._name] = group
        return group

    def destroy(self, group: Group) -> None:
        """Let go of a group, of all if it is the default one. ValueError for one that is not known any more."""
        if self.groups.get(group._name) is not group:
            raise ValueError(DESTROYED)
        with self.lock:
            if group is not self.default:
                del self.groups[group._name]
                group._low.close()
                return
            groups, hook = list(self.groups.values()), self.excepthook
            self.clear()
            # A program that has set its own since keeps it.
            if hook is not None and sys.excepthook is hook[0]:
                sys.excepthook = hook[1]
            for each in reversed(groups):
                each._low.close()

    def store(self) -> Store:
        """A part of the store in which the default group met, for the program's own keys. ValueError before
        init_process_group."""
        if self.default is None:
            raise ValueError(UNINITIALISED)
        low = self.default._low.store
        assert low is not None, "init_process_group has met in a store"
        return PrefixStore("default_pg", low)


world = World()
