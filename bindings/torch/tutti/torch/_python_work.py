"""Works and errors of the backend's Python fallback."""

import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

import tutti


def torchs_error(problem: BaseException) -> BaseException:
    """The exception of torch that stands for an error of tutti."""
    kind: type[BaseException] = dist.DistBackendError
    text = str(problem)
    if not isinstance(problem, tutti.Error):
        return problem
    if isinstance(problem, tutti.InvalidArgument):
        kind = ValueError
    elif isinstance(problem, tutti.NetworkError):
        kind = dist.DistNetworkError
    elif isinstance(problem, tutti.StoreError):
        kind = dist.DistStoreError
    elif isinstance(problem, tutti.TimeoutError):
        text = f"tutti: a timeout has passed: {text}"  # programs that know Gloo look for this word in its texts
    return kind(text)


@contextlib.contextmanager
def torchs_errors() -> Iterator[None]:
    """Raises exceptions of tutti as torch's."""
    try:
        yield
    except tutti.Error as problem:
        raise torchs_error(problem) from None


# Where `on` is set, this thread runs what is chained to a future. Meanwhile tutti's thread completes no other.
_chain = threading.local()


class _Failure:
    """The value of a future that has failed. torch's C++, as DDP's, looks for tensors in such a value by pickling it, and
    reads memory that is no tensor where it finds none; so pickling it raises what went wrong."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        raise self.problem

    @staticmethod
    def unwrap(value: "_Failure") -> None:
        """The future calls it to give its value to Python."""
        raise value.problem


class PythonWork(dist.Work):  # type: ignore[misc]
    """Operations that torch sees as one. tutti keeps their tensors until they are done."""

    def __init__(self, works: Sequence[tutti.Work], outputs: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.works, self._outputs = list(works), list(outputs)
        self._future: Any = None

    def add(self, other: "PythonWork") -> None:
        """Makes the operations of `other` a part of this."""
        self.works += other.works
        self._outputs += other._outputs

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Until all are done, or raise what went wrong; after `timeout` they go on, and can be waited for again."""
        limit = timeout if timeout > timedelta(0) else None
        for work in self.works:
            with torchs_errors():
                work.wait(limit)
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        """Are all done, well or badly?"""
        return all(work.is_completed() for work in self.works)

    def is_success(self) -> bool:
        """Are all done, and well?"""
        return all(work.is_success() for work in self.works)

    def exception(self) -> BaseException | None:
        """The first error, or None."""
        problems = [work.exception() for work in self.works]
        return next((torchs_error(one) for one in problems if one is not None), None)

    def source_rank(self) -> int:
        """Of a recv that is done: the rank of the group that sent."""
        found = next((work.source_rank for work in self.works if work.source_rank >= 0), None)
        if found is None:
            raise ValueError("Work.source_rank: only a recv that is done has one")
        return found

    _source_rank = source_rank

    def result(self) -> list[torch.Tensor]:
        """The tensors that are written."""
        return self._outputs

    def get_future(self) -> Any:
        """Completes on a thread of tutti, when all operations are done."""
        if self._future is None:
            self._future = future = torch.futures.Future()
            if getattr(_chain, "on", False):  # it may wait for this future, as PowerSGD's hook does
                threading.Thread(target=self._settle_apart, args=(future,), daemon=True).start()
                return future
            left = itertools.count(len(self.works), -1)  # next() is one step for other threads

            def done(work: tutti.Work | None) -> None:
                if next(left) == 0:
                    self._settle(future)
            for work in self.works:
                work.add_done_callback(done)
            done(None)
        return self._future

    def _settle_apart(self, future: Any) -> None:
        with contextlib.suppress(Exception):  # the future tells it
            self.wait()
        self._settle(future)

    def _settle(self, future: Any) -> None:
        problem = self.exception()
        before, _chain.on = getattr(_chain, "on", False), True
        if problem is None:
            future.set_result(self._outputs)
        else:
            future._set_unwrap_func(_Failure.unwrap)
            future.set_result(_Failure(problem))
        _chain.on = before
