"""Values that come later, of operations and of programs."""

import threading
from collections.abc import Callable, Generator
from typing import Any


class Future:
    """A value that comes later. Callbacks run on one thread that all of them share, or at once."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._over = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[["Future"], Any]] = []
        self._work: Any = None
        self._before: Future | None = None  # the one that this follows, until it is over

    @classmethod
    def _of_work(cls, work: Any) -> "Future":
        future = cls()
        future._work = work
        work._when_done(lambda: future._take(work))
        return future

    def _take(self, work: Any) -> None:
        problem = work.exception()
        if problem is not None:
            self._end(None, problem)
        else:
            self._end(work._value(), None)

    def _end(self, value: Any, error: BaseException | None, again: bool = False) -> None:
        with self._lock:
            if self._over:
                if again:
                    raise RuntimeError("the future has its value already")
                return
            self._value, self._error, self._over = value, error, True
            self._before = None
            callbacks, self._callbacks = self._callbacks, []
            self._lock.notify_all()
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callable[["Future"], Any]) -> None:
        """Logs the error of a callback; other callbacks and waiting threads go on."""
        try:
            callback(self)
        except Exception:
            import logging  # large, and mostly not needed
            logging.getLogger("tutti").exception("a callback of a future failed: %r", callback)

    def set_result(self, result: Any) -> None:
        """Give the value; once."""
        self._end(result, None, again=True)

    def set_exception(self, result: BaseException) -> None:
        """Fail with that error; once."""
        if not isinstance(result, BaseException):
            raise TypeError(f"{result} is of type {type(result)}, not an Exception.")
        self._end(None, result, again=True)

    def done(self) -> bool:
        """It has a value, or failed. Never blocks."""
        if not self._over and self._work is not None and self._work.is_completed():
            self._take(self._work)
        return self._over

    def wait(self) -> Any:
        """The value, or raise what went wrong."""
        if not self._over:
            if self._work is not None:
                try:
                    self._work.wait()  # drives the operation
                except Exception as problem:
                    self._end(None, problem)
                else:
                    self._end(self._work._value(), None)
            else:
                self._drive()
                with self._lock:
                    while not self._over:
                        self._lock.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def _drive(self) -> None:
        """Waits for the operation at the beginning: in a forked child no other thread tells that it has failed."""
        before = self._before
        if before is not None:
            try:
                before.wait()
            except Exception:  # which `then` gives to its callback
                pass

    def value(self) -> Any:
        """The value. Raises the error of the operation, or RuntimeError if there is no value yet."""
        if not self.done():
            raise RuntimeError("the future has no value yet; wait() for it")
        return self.wait()

    def exception(self) -> BaseException | None:
        """The error; None if there is none so far."""
        return self._error if self.done() else None

    def add_done_callback(self, callback: Callable[["Future"], Any]) -> None:
        """Call `callback(self)` when done; at once if it is. An error that leaves it is logged."""
        with self._lock:
            if not self._over:
                self._callbacks.append(callback)
                return
        self._call(callback)

    def then(self, callback: Callable[["Future"], Any]) -> "Future":
        """A future of the result of `callback(self)`, which is called once this one is done."""
        after = Future()
        after._before = self

        def go_on(done: "Future") -> None:
            try:
                after._end(callback(done), None)
            except BaseException as problem:
                after._end(None, problem)

        self.add_done_callback(go_on)
        return after

    def __await__(self) -> Generator[Any, None, Any]:
        from tutti._awaiting import until_told  # noqa: PLC0415: imports asyncio
        if not self.done():
            yield from until_told(self.add_done_callback)
        return self.wait()
