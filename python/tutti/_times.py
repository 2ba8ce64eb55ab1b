"""Timeouts: a number of seconds, or a timedelta."""

from datetime import timedelta
from typing import Any, TypeAlias

Timeout: TypeAlias = float | timedelta | None


def seconds(timeout: Any) -> float:
    """A timeout in seconds. TypeError unless it is a number or a timedelta, ValueError if it is not a number (NaN)."""
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")  # torch's words
    if timeout != timeout:
        raise ValueError("a timeout is a number of seconds, not NaN")
    return float(timeout)


def duration(timeout: Any) -> timedelta:
    """A timeout as a timedelta. ValueError for what no timedelta holds; else as `seconds`."""
    if isinstance(timeout, timedelta):
        return timeout
    try:
        return timedelta(seconds=seconds(timeout))
    except OverflowError:
        raise ValueError(f"a timeout of {timeout} s is longer than a timedelta can be") from None
