"""Timeouts: a number of seconds, or a timedelta; infinity and timedelta.max mean no limit."""

from datetime import timedelta
from typing import Any, TypeAlias

Timeout: TypeAlias = float | timedelta | None
NO_LIMIT = float("inf")


def seconds(timeout: Any) -> float:
    """A timeout in seconds. TypeError unless it is a number or a timedelta, ValueError if it is not a number (NaN)."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds() if timeout < timedelta.max else NO_LIMIT
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")  # torch's words
    if timeout != timeout:
        raise ValueError("a timeout is a number of seconds, not NaN")
    try:
        return float(timeout)
    except OverflowError:
        raise ValueError("a timeout is a number of seconds that a float can hold, or float('inf') for no limit") from None


def seconds_to_wait(timeout: Timeout) -> float | None:
    """The same for functions of Python that wait. None: without limit."""
    limit = NO_LIMIT if timeout is None else seconds(timeout)
    return None if limit == NO_LIMIT else limit


def duration(timeout: Any) -> timedelta:
    """A timeout as a timedelta. ValueError for what no timedelta holds; else as `seconds`."""
    if isinstance(timeout, timedelta):
        return timeout
    if timeout == NO_LIMIT:
        return timedelta.max
    try:
        return timedelta(seconds=seconds(timeout))
    except OverflowError:
        raise ValueError(f"a timeout of {timeout} s is longer than a timedelta can be") from None
