"""Times that hold unless a call says its own."""

from datetime import timedelta
from typing import Any

from tutti import _tutti

default_pg_timeout = timedelta(minutes=30)
default_store_timeout = timedelta(minutes=5)


def check_timedelta(timeout: Any) -> None:
    """As init_process_group, new_group and monitored_barrier want it."""
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


def timeout_or_default(timeout: timedelta | None) -> timedelta:
    """The timeout of a call, else that of TUTTI_TIMEOUT now, else `default_pg_timeout`."""
    return _tutti.Config.from_environment().timeout if timeout is None else timeout


def seconds_of(timeout: Any) -> float | None:
    """A timeout in seconds: None and zero mean that there is none of its own."""
    if timeout is None:
        return None
    if isinstance(timeout, timedelta):
        return timeout.total_seconds() or None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"a timeout is a datetime.timedelta or a number of seconds, not {timeout!r}")
    return float(timeout) or None
