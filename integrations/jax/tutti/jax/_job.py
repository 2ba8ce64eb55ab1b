"""Tells the library which process of the JAX job this is, and how the processes exchange texts."""

import _thread
import atexit
import contextlib
import ctypes
import math
import os
import re
import time
from collections.abc import Callable
from typing import Any

import jax
from jax._src import distributed

_SPLIT_SECONDS = 30.0
_MOST_NAMED = 8  # absent processes in a text


class _Place(ctypes.Structure):
    _fields_ = [("rank", ctypes.c_int), ("size", ctypes.c_int), ("split_seconds", ctypes.c_double)]


_AskPlace = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Place), ctypes.c_double)
_Exchange = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_double)
_callbacks: list[Any] = []  # the library has them until the process ends
_folder: tuple[Any, int] = (None, 0)  # JAX's coordination client, and the number of worlds that were made by it


def register(library: ctypes.CDLL) -> None:
    """Gives the callbacks to the library. It calls them in the thread that makes JAX's client, with the GIL."""
    if _callbacks:
        return
    library.tutti_jax_give.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    library.tutti_jax_give.restype = None
    library.tutti_jax_leave.restype = None

    def give(text: bytes) -> None:
        library.tutti_jax_give(text, len(text))

    def guarded(function: Callable[..., None]) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            try:
                function(*arguments)
            except KeyboardInterrupt:
                _thread.interrupt_main()  # again, when jaxlib has returned
                give(b"interrupted")
                return 1
            except BaseException as problem:
                give(str(problem).encode())
                return 1
            return 0
        return call

    def ask_place(place: Any, seconds: float) -> None:
        global _folder
        if _folder[0] is None:
            atexit.register(_leave, library)
        client, worlds = distributed.global_state.client, _folder[1]
        _folder = client, worlds + 1 if client is _folder[0] else 1
        place[0].rank, place[0].size = distributed.global_state.process_id, distributed.global_state.num_processes
        problem, place[0].split_seconds = _settings()
        # All hear of it, so that nobody waits for a process that refuses.
        for process, text in enumerate(_exchanged("settings", problem.encode(), seconds)):
            if text:
                raise RuntimeError(f"process {process}: {text.decode()}")

    def exchange(name: bytes, mine: int, size: int, seconds: float) -> None:
        for text in _exchanged(name.decode(), ctypes.string_at(mine, size), seconds):
            give(text)

    _callbacks.extend((_AskPlace(guarded(ask_place)), _Exchange(guarded(exchange))))
    library.tutti_jax_set_callbacks(*_callbacks)


def _settings() -> tuple[str, float]:
    """The reason why this process cannot take part (none: ""), and the timeout of a split in seconds."""
    devices = jax.config.jax_num_cpu_devices
    if devices < 0:
        told = re.findall(r"--xla_force_host_platform_device_count=(\d+)", os.environ.get("XLA_FLAGS", ""))
        devices = int(told[-1]) if told else 1
    if devices != 1:
        return (f"it has {devices} CPU devices, and tutti.jax needs one per process: unset jax_num_cpu_devices and "
                "--xla_force_host_platform_device_count, and start more processes"), _SPLIT_SECONDS
    text = os.environ.get("TUTTI_JAX_SPLIT_TIMEOUT", "").strip()
    try:
        seconds = float(text) if text else _SPLIT_SECONDS
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < 1e9:
        return f"TUTTI_JAX_SPLIT_TIMEOUT is {text!r}; allowed: seconds, more than 0", _SPLIT_SECONDS
    return "", seconds


def _exchanged(name: str, mine: bytes, seconds: float) -> list[bytes]:
    """The texts of all processes, in their order, by JAX's coordination service. TimeoutError names those that are absent."""
    state = distributed.global_state
    client, count = state.client, state.num_processes
    if client is None:
        raise RuntimeError("jax.distributed.initialize was not called")
    folder = f"tutti.jax/{_folder[1]}/{name}"
    client.key_value_set_bytes(f"{folder}/{state.process_id}", mine)
    until = time.monotonic() + seconds
    pause = 0.001
    while True:
        found = {int(key.rpartition("/")[2]): text for key, text in client.key_value_dir_get_bytes(folder)}
        if len(found) == count:
            return [found[process] for process in range(count)]
        if time.monotonic() > until:
            absent = [process for process in range(count) if process not in found]
            more = f" and {len(absent) - _MOST_NAMED} more" if len(absent) > _MOST_NAMED else ""
            raise TimeoutError(f"process {', '.join(map(str, absent[:_MOST_NAMED]))}{more} did not come within {seconds:.3g} s; "
                               "does every process import tutti.jax, and use JAX?")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05 + 0.0005 * count)


def _leave(library: ctypes.CDLL) -> None:
    """At the end of the process: computations that still run may need this process on other ones."""
    with contextlib.suppress(Exception):
        for array in jax.live_arrays("cpu"):
            with contextlib.suppress(Exception):
                array.block_until_ready()
    library.tutti_jax_leave()
