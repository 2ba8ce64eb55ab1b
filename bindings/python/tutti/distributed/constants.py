"""Times that hold unless a call says its own."""

from datetime import timedelta

from tutti import _tutti
from tutti._times import Timeout, duration, seconds

default_pg_timeout = timedelta(minutes=30)
default_store_timeout = timedelta(minutes=5)


def timeout_or_default(timeout: Timeout) -> timedelta:
    """The timeout of a call, else that of TUTTI_TIMEOUT now, else `default_pg_timeout`."""
    return _tutti.Config.from_environment().timeout if timeout is None else duration(timeout)


def seconds_of(timeout: Timeout) -> float | None:
    """A timeout in seconds: None and zero mean that there is none of its own."""
    return None if timeout is None else seconds(timeout) or None
