"""Tells a process whose function has returned from one that has ended with exit code 0 before."""

import contextlib
import mmap
import os
from collections.abc import Callable, Iterator
from multiprocessing.reduction import DupFd
from typing import Any


@contextlib.contextmanager
def _standard_streams_taken() -> Iterator[None]:
    """Where they are closed, no descriptor that is made meanwhile gets their numbers (mmap makes one, too): what a process
    prints must not go into the memory."""
    made = [os.open(os.devnull, os.O_RDONLY)]
    while made[-1] <= 2:
        made.append(os.open(os.devnull, os.O_RDONLY))
    try:
        yield
    finally:
        for one in made:
            os.close(one)


class Returned:
    """A byte for each process, in memory that all of them share. An exit code of 0 alone says nothing: os._exit(0), or
    exit() in a library of C, may have ended the process in the middle of its function.

    It is no file and no pipe, so that a function may change its user or root, close all descriptors, and use up disk
    and descriptors.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        with _standard_streams_taken():
            self._fd = os.memfd_create("tutti returned")
            os.ftruncate(self._fd, count)
            self._bytes = mmap.mmap(self._fd, count)

    def __getstate__(self) -> tuple[int, Any]:
        return self._count, DupFd(self._fd)

    def __setstate__(self, state: tuple[int, Any]) -> None:
        self._count, shared = state
        self._fd = shared.detach()
        with _standard_streams_taken():
            self._bytes = mmap.mmap(self._fd, self._count)
        self._close_fd()

    def __call__(self, index: int) -> bool:
        """True if that process has set its mark."""
        return self._bytes[index] != 0

    def mark(self, index: int, value: bool = True) -> None:
        """Note that the function of this process has returned."""
        self._bytes[index] = value

    def follow_exec(self, index: int) -> None:
        """From now on, a program that this process becomes by os.exec ends in its place: its exit code counts alone."""
        for name in ("execv", "execve"):
            setattr(os, name, self._noting(getattr(os, name), index, os.getpid()))

    def _noting(self, become: Callable[..., Any], index: int, pid: int) -> Callable[..., Any]:
        def noting(*args: Any, **kwargs: Any) -> Any:
            ours = os.getpid() == pid  # and not a child of this process
            if ours:
                self.mark(index)
            try:
                return become(*args, **kwargs)
            finally:
                if ours:
                    self.mark(index, False)

        return noting

    def close(self) -> None:
        """Give the memory back, when nobody asks any more."""
        self._close_fd()
        self._bytes.close()

    def _close_fd(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
