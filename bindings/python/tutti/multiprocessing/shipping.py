"""Functions and their arguments on the way to another process, those of a notebook's cell included.

Python's pickle sends a function as a name. A function that was defined in a notebook's cell, at the prompt or inside
a function has no name that another process could look up. It is sent whole, with cloudpickle.
"""

import collections
import contextlib
import io
import multiprocessing.context
import os
import pickle
import sys
import threading
import types
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from typing import Any

_HINT = ("; what is defined in a notebook's cell, at the prompt or inside a function goes to another process "
         "with cloudpickle only: pip install cloudpickle, or put it into a module")


def main_is_interactive() -> bool:
    """True if other processes cannot import our main module: it is a notebook, a prompt, -c, standard input, or the
    __main__ of a folder, an archive or a package, which multiprocessing leaves out."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).rpartition(".")[2] == "__main__"
    file = getattr(main, "__file__", None)
    return file is None or not _can_be_run_again(str(file))


def _can_be_run_again(file: str) -> bool:
    """Another process finds the same program in that file. Not in <stdin>, /dev/fd/63, nor where only IPython reads it."""
    return (os.path.isfile(file) and not file.startswith(("/dev/stdin", "/dev/fd/", "/proc/"))
            and not file.endswith((".ipy", ".ipynb")))


_leaving_out = threading.Lock()


@contextlib.contextmanager
def main_left_out() -> Iterator[None]:
    """While other Pythons are started: multiprocessing has them run the file of our main module, if it names one. One
    that cannot be run again is not named meanwhile."""
    with _leaving_out:
        main: Any = sys.modules.get("__main__")
        file = getattr(main, "__file__", None)
        if file is None or getattr(main, "__spec__", None) is not None or not main_is_interactive():
            yield
            return
        del main.__file__
        try:
            yield
        finally:
            main.__file__ = file


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
            return _dumps_by_name(value)
        except (pickle.PicklingError, AttributeError, TypeError) as problem:
            if not has_cloudpickle():
                raise pickle.PicklingError(f"{problem}{_HINT}") from problem
            del passed[before:]  # of queues that were pickled before it failed: they are pickled again
    # Types that multiprocessing has a reducer for use it; cloudpickle sends everything else.
    return _dumps_whole(value, ForkingPickler(io.BytesIO()).dispatch_table)


class _ByName(ForkingPickler):
    """Refuses functions that the other process would look up and not find."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, types.FunctionType) and _is_of_text(obj):
            raise pickle.PicklingError(f"{obj!r} was defined by a text that the program has run by exec")
        return NotImplemented


def _dumps_by_name(value: Any) -> bytes:
    file = io.BytesIO()
    _ByName(file, pickle.HIGHEST_PROTOCOL).dump(value)
    return file.getvalue()


def _is_of_text(fn: Any) -> bool:
    """True for a function of the main module that does not stand in a file: another process has not run its text."""
    code = getattr(fn, "__code__", None)
    return getattr(fn, "__module__", None) == "__main__" and getattr(code, "co_filename", "").startswith("<")


def _descriptors() -> list[int]:
    """Those that the process which is being started will get; each may stand there once."""
    passed: list[int] = getattr(multiprocessing.context.get_spawning_popen(), "_fds", [])
    return passed


def dumps_by_value(value: Any, by_name: bool = True) -> bytes:
    """Pickled `value`, which may be read when this process has ended: nothing in it is a descriptor or
    shared memory of ours, as what multiprocessing sends between living processes is. `by_name`: functions in it have
    names by which the reader finds them."""
    if by_name and not main_is_interactive() or not has_cloudpickle():
        try:
            return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, AttributeError, TypeError) as problem:
            if not has_cloudpickle():
                raise pickle.PicklingError(f"{problem}{_HINT}") from problem
    return _dumps_whole(value, {})


def _dumps_whole(value: Any, reducers: Any) -> bytes:
    """Pickled by cloudpickle, and by `reducers` where it has none for a type."""
    import cloudpickle  # noqa: PLC0415: as above

    theirs: Any = cloudpickle.CloudPickler.dispatch_table

    def reduce_code(code: types.CodeType) -> Any:
        # Newer versions forget the file, by which tracebacks find their lines.
        make, fields = theirs[types.CodeType](code)
        return make, tuple(code.co_filename if isinstance(field, str) and field == "<dynamic-code>" else field for field in fields)

    class Pickler(cloudpickle.CloudPickler):  # type: ignore[misc]  # it has no types
        dispatch_table = collections.ChainMap({types.CodeType: reduce_code}, theirs, reducers)

    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """The object of bytes that `dumps` or `dumps_by_value` has made."""
    return pickle.loads(data)


def _sources_in(data: bytes) -> dict[str, list[str]]:
    """The lines of the texts without a file, such as a notebook's cells, that functions in this pickle come from, by name."""
    import linecache  # noqa: PLC0415: as cloudpickle

    return {name: entry[2] for name, entry in list(linecache.cache.items())
            if len(entry) == 4 and name.encode() in data and not os.path.exists(name)}


def _keep_sources(sources: dict[str, list[str]]) -> None:
    """Tracebacks show these lines from now on."""
    import linecache  # noqa: PLC0415: as cloudpickle

    for name, lines in sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)  # None: no file that may change


def has_name(fn: Any) -> bool:
    """True if another process finds `fn` by its name."""
    module = sys.modules.get(getattr(fn, "__module__", None) or "")
    found: Any = module
    for part in getattr(fn, "__qualname__", "<none>").split("."):
        found = getattr(found, part, None)
    return (found is fn and not _is_of_text(fn)
            and not (module is sys.modules.get("__main__") and main_is_interactive()))


class Shipped:
    """A value that is unpickled only when it is asked for, where its errors can be told. `now`: pickled at once by
    `dumps_by_value`, else where the object itself is pickled."""

    def __init__(self, value: Any, now: bool = False, by_name: bool = True) -> None:
        self._value = value
        self._bytes = dumps_by_value(value, by_name) if now else None

    def __getstate__(self) -> tuple[bytes, dict[str, list[str]]]:
        data = dumps(self._value) if self._bytes is None else self._bytes
        return data, _sources_in(data)

    def __setstate__(self, state: tuple[bytes, dict[str, list[str]]]) -> None:
        self._bytes, self._sources = state

    def open(self) -> Any:
        """The value; raises the exception that unpickling it raises."""
        if self._bytes is None:
            return self._value
        _keep_sources(self._sources)
        return loads(self._bytes)
