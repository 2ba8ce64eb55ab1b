"""The library's remarks, through Python's `logging`."""

import logging

from tutti import _tutti

NAME = "tutti"
_LEVELS = {
    _tutti.LogLevel.DEBUG: logging.DEBUG,
    _tutti.LogLevel.INFO: logging.INFO,
    _tutti.LogLevel.WARNING: logging.WARNING,
    _tutti.LogLevel.ERROR: logging.ERROR,
}


def install(logger: logging.Logger | None = None) -> None:
    """Hands what the library remarks to `logger` (the one named "tutti", if not told), from the level on
    that TUTTI_LOG_LEVEL gives (warning). `tutti.distributed` does this when a world is made."""
    to = logging.getLogger(NAME) if logger is None else logger

    def sink(level: _tutti.LogLevel, text: str) -> None:
        to.log(_LEVELS.get(level, logging.ERROR), "%s", text)

    _tutti.set_log_sink(sink)


def remove() -> None:
    """The library is silent again."""
    _tutti.set_log_sink(None)
