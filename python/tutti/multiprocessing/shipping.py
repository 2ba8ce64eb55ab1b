"""Functions and their arguments on the way to another process, those of a notebook's cell included.

Python's pickle sends a function as a name. A function that was defined in a notebook's cell, at the prompt or inside
a function has no name that another process could look up. It is sent whole, with cloudpickle.
"""

import collections
import io
import multiprocessing.context
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

_HINT = ("; what is defined in a notebook's cell, at the prompt or inside a function goes to another process "
         "with cloudpickle only: pip install cloudpickle, or put it into a module")


def main_is_interactive() -> bool:
    """True if other processes cannot import our main module: it is a notebook, a prompt or -c."""
    main = sys.modules.get("__main__")
    return getattr(main, "__file__", None) is None and getattr(main, "__spec__", None) is None


def has_cloudpickle() -> bool:
    """Functions without a name can be sent."""
    try:
        import cloudpickle  # noqa: F401, PLC0415: needed for sending only
    except ImportError:
        return False
    return True


def dumps(value: Any) -> bytes:
    """Pickled `value`; queues and locks are allowed while a process is being started."""
    if not main_is_interactive() or not has_cloudpickle():
        passed = _descriptors()
        before = len(passed)
        try:
            return bytes(ForkingPickler.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))
        except (pickle.PicklingError, AttributeError, TypeError) as problem:
            if not has_cloudpickle():
                raise pickle.PicklingError(f"{problem}{_HINT}") from problem
            del passed[before:]  # of queues that were pickled before it failed: they are pickled again
    return _dumps_whole(value)


def _descriptors() -> list[int]:
    """Those that the process which is being started will get; each may stand there once."""
    passed: list[int] = getattr(multiprocessing.context.get_spawning_popen(), "_fds", [])
    return passed


def dumps_by_value(value: Any) -> bytes:
    """Pickled `value`, which may be read when this process has ended: nothing in it is a descriptor or
    shared memory of ours, as what multiprocessing sends between living processes is."""
    if not main_is_interactive() or not has_cloudpickle():
        try:
            return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as problem:
            if not has_cloudpickle():
                raise pickle.PicklingError(f"{problem}{_HINT}") from problem
    import cloudpickle  # noqa: PLC0415: as above

    return bytes(cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL))


def _dumps_whole(value: Any) -> bytes:
    import cloudpickle  # noqa: PLC0415: as above

    ours: Any = ForkingPickler(io.BytesIO()).dispatch_table
    theirs: Any = cloudpickle.CloudPickler.dispatch_table

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]  # it has no types
        # Types that multiprocessing has a reducer for use it; cloudpickle sends everything else.
        dispatch_table = collections.ChainMap(theirs, ours)

    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """The object of bytes that `dumps` or `dumps_by_value` has made."""
    return pickle.loads(data)


def has_name(fn: Any) -> bool:
    """True if another process finds `fn` by its name."""
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    found: Any = module
    for part in getattr(fn, "__qualname__", "<none>").split("."):
        found = getattr(found, part, None)
    return found is fn and not (module is sys.modules.get("__main__") and main_is_interactive())


class Shipped:
    """A value that is unpickled only when it is asked for, where its errors can be told."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._bytes: bytes | None = None

    def __getstate__(self) -> bytes:
        return dumps(self._value)

    def __setstate__(self, state: bytes) -> None:
        self._bytes = state

    def open(self) -> Any:
        """The value; raises the exception that unpickling it raises."""
        return self._value if self._bytes is None else loads(self._bytes)
