"""Where processes stand: each writes the stacks of its Python threads into a file when it is asked by SIGUSR1."""

import contextlib
import faulthandler
import os
import pathlib
import signal
import time
from collections.abc import Iterator, Mapping

_LIMIT = 1.0  # seconds for all of them
_UNCHANGED = 0.02  # seconds after which a stack is taken to be complete


@contextlib.contextmanager
def told_to(path: str) -> Iterator[None]:
    """In the process: until the end of the block it answers."""
    with open(path, "w", encoding="utf-8") as file:
        faulthandler.register(signal.SIGUSR1, file=file)
        try:
            yield
        finally:
            faulthandler.unregister(signal.SIGUSR1)


def asked(ranks: Mapping[int, tuple[str, int]], file: str, function: str) -> dict[int, str]:
    """The stacks of these ranks, each given by its file and its process number. They end before that function, which calls that
    of the program, and leave out the thread that watches the parent."""
    for _, pid in ranks.values():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
    until = time.monotonic() + _LIMIT
    return {rank: _shown(_awaited(pathlib.Path(path), until), file, function) for rank, (path, _) in ranks.items()}


def too_late(seconds: float | None, ranks: Mapping[int, tuple[str, int]]) -> TimeoutError:
    """The error of `run` for ranks that still run, each with the file of its stacks and its process number."""
    shown = "".join(f"\n---- rank {rank} stood here ----\n{stack}" for rank, stack in asked(ranks, "child.py", "call_in_world").items())
    return TimeoutError(f"run: after {seconds:g} s rank(s) {', '.join(map(str, ranks))} still ran and were ended; if they are "
                        f"only slow, give a longer timeout{shown}")


def _awaited(file: pathlib.Path, until: float) -> str:
    text = ""
    while True:
        before, text = text, file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        if text and text == before or time.monotonic() >= until:
            return text
        time.sleep(_UNCHANGED)


def _shown(stacks: str, file: str, function: str) -> str:
    def place(lines: list[str], file: str, function: str) -> int:
        return next((at for at, line in enumerate(lines) if f'{file}", line' in line and line.endswith(f" in {function}")),
                    len(lines))

    threads = []
    for thread in stacks.strip().split("\n\n"):
        lines = thread.splitlines()
        if place(lines, "child.py", "watch") < len(lines):
            continue
        end = place(lines, file, function)
        threads.append("\n".join(lines[:end]))
    return "\n\n".join(threads) or "it has told no stack: it has not begun yet, or has another handler of SIGUSR1"
