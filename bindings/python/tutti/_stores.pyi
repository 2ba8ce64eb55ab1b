"""The stores of _tutti.pyi. As everywhere, timeouts are seconds or a timedelta; None is the store's own."""

from collections.abc import Sequence
from datetime import timedelta
from typing import TypeAlias

from tutti._times import Timeout

Key: TypeAlias = str | bytes
Value: TypeAlias = str | bytes | bytearray | memoryview

class Store:
    """A small table that the ranks of a job share: keys and values are bytes (str: UTF-8).

    Derive from it in Python for a store of your own: define set, get, add, check, wait, compare_set,
    delete_key and list_keys; the others have a correct, slower form built on these. C++ calls them
    with these parameters by position and without timeouts, but for `wait(keys, timeout)`, which
    must raise TimeoutError; values are given as bytes, keys as str.

    TimeoutError when the time is over, StoreError when the store is gone, InvalidArgument for a key
    or value that is too long.
    """

    def __init__(self) -> None: ...
    def set(self, key: Key, value: Value, *, timeout: Timeout = None) -> None:
        """Replace the value, and wake the callers that wait for the key."""
    def get(self, key: Key, *, timeout: Timeout = None) -> bytes:
        """Waits until the key is there."""
    def add(self, key: Key, amount: int, *, timeout: Timeout = None) -> int:
        """Add to a number (absent: 0); the sum. The value is decimal text."""
    def check(self, keys: Sequence[Key], *, timeout: Timeout = None) -> bool:
        """True if all keys are there."""
    def wait(self, keys: Sequence[Key], timeout: Timeout = None) -> None:
        """Until all keys are there."""
    def compare_set(self, key: Key, expected: Value, desired: Value, *,
                    timeout: Timeout = None) -> bytes:
        """Set to `desired` if the value is `expected`, or absent and `expected` empty. The value
        that stands afterwards; `expected` if the key is absent and stays so."""
    def delete_key(self, key: Key, *, timeout: Timeout = None) -> bool:
        """False if it was not there."""
    def num_keys(self, *, timeout: Timeout = None) -> int:
        """How many keys there are; of a PrefixStore those of its part."""
    def list_keys(self, *, timeout: Timeout = None) -> list[str]:
        """All keys, in no order."""
    def append(self, key: Key, value: Value, *, timeout: Timeout = None) -> None:
        """Append to the value that is there."""
    def multi_get(self, keys: Sequence[Key], *, timeout: Timeout = None) -> list[bytes]:
        """The values of all keys; waits until they are there."""
    def multi_set(self, keys: Sequence[Key], values: Sequence[Value], *,
                  timeout: Timeout = None) -> None:
        """Set each key to its value."""
    def queue_push(self, queue: Key, value: Value, *, timeout: Timeout = None) -> None:
        """Put the value at the end of a queue."""
    def queue_pop(self, queue: Key, block: bool = True, *, timeout: Timeout = None) -> bytes:
        """The first value. Waits for one; with block=False an empty queue raises QueueEmptyError."""
    def queue_len(self, queue: Key, *, timeout: Timeout = None) -> int:
        """How many values the queue has."""
    def set_will(self, key: Key, value: Value, *, timeout: Timeout = None) -> bool:
        """Set by the store when this process's connection ends unexpectedly. False: cannot."""
    def drop_will(self, key: Key, *, timeout: Timeout = None) -> None:
        """Take a will back."""
    @property
    def timeout(self) -> timedelta:
        """Of calls that say none."""
    def set_timeout(self, timeout: float | timedelta) -> None:
        """Of calls from now on that say none."""

class HashStore(Store):
    """Inside this process, for threads and tests."""

    def __init__(self) -> None: ...

class FileStore(Store):
    """In a file, for processes that share a file system. `world_size`: how many will use it; the last
    of them removes the file. None: it stays."""

    def __init__(self, file_name: str, world_size: int | None = None, *, timeout: Timeout = None,
                 linger: float | timedelta = 1.0) -> None: ...
    @property
    def path(self) -> str:
        """Where the file is."""

class TCPStore(Store):
    """Served by one process, reached by the others over TCP."""

    def __init__(self, host_name: str, port: int = 0, world_size: int | None = None,
                 is_master: bool = False, timeout: Timeout = None,
                 wait_for_workers: bool = True, *, secret: bytes = b"", encrypt: bool = False, job: str = "",
                 linger: float | timedelta = 1.0) -> None:
        """`wait_for_workers`: the master returns when all `world_size` have connected."""
    @property
    def host(self) -> str:
        """As it was given."""
    @property
    def port(self) -> int:
        """The one that is served, also where 0 was given."""

class PrefixStore(Store):
    """A part of another store: every key k is `<prefix>/k` there."""

    def __init__(self, prefix: str, store: Store) -> None: ...
    @property
    def prefix(self) -> str:
        """The text before our keys there, without the slash."""
    @property
    def underlying_store(self) -> Store:
        """The store that this is a part of."""
