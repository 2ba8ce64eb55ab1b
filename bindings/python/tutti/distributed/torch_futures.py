"""Futures that are torch's as well: torch.futures.wait_all and collect_all take them. Only where torch is imported."""

import threading
from typing import Any

import torch

from tutti.distributed.futures import Future


class TorchFuture(torch.futures.Future, Future):  # type: ignore[misc]  # torch may be absent
    """The value of a Work. Methods are torch's, and `exception` and `await` ours."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        # Until it is over: an error that was raised holds its frames, and Python's collector cannot look into torch's
        # futures, so what they keep is kept for good.
        self._of: Any = work
        self._settling = threading.Lock()
        work._when_done(self._settle)

    def _settle(self) -> None:
        """The operation is over: gives torch's future its value or its error, once."""
        with self._settling:
            work, self._of = self._of, None
            if work is None or super().done():
                return
            problem = work.exception()
            if problem is None:
                self.set_result(work._value())
            else:
                self.set_exception(problem)

    def done(self) -> bool:
        """It has a value, or failed. Never blocks."""
        work = self._of
        if work is not None and work.is_completed():
            self._settle()
        return bool(super().done())

    def wait(self) -> Any:
        """The value, or raise what went wrong."""
        work = self._of
        if work is not None:
            try:
                work.wait()  # drives the operation
            except Exception:  # which is the future's
                pass
            del work
            self._settle()
        return super().wait()

    def exception(self) -> BaseException | None:
        """The error; None if there is none so far."""
        if not self.done():
            return None
        try:
            self.value()
        except Exception as problem:
            return problem
        return None
