"""The library's remarks, through Python's `logging`."""

import logging
import os

from tutti import _tutti

NAME = "tutti"
_LEVELS = {
    _tutti.LogLevel.DEBUG: logging.DEBUG,
    _tutti.LogLevel.INFO: logging.INFO,
    _tutti.LogLevel.WARNING: logging.WARNING,
    _tutti.LogLevel.ERROR: logging.ERROR,
}
_installed = False


def install(logger: logging.Logger | None = None, least: _tutti.LogLevel | None = None) -> None:
    """Hands the library's log lines to `logger` (the one named "tutti", if not told), from the level
    `least` on (that in TUTTI_LOG_LEVEL, if not told: warning). Replaces another sink. A world that is made
    later changes the level only where TUTTI_LOG_LEVEL is set or a Config is given."""
    global _installed
    to = logging.getLogger(NAME) if logger is None else logger
    if least is None:
        least = _tutti.Config.from_environment().log_level
        if os.environ.get("TUTTI_LOG_LEVEL") and least < _tutti.LogLevel.WARNING:
            _show(to, _LEVELS[least])

    def sink(level: _tutti.LogLevel, text: str) -> None:
        to.log(_LEVELS.get(level, logging.ERROR), "%s", text)

    _tutti.set_log_sink(sink, least)
    _installed = True


def _show(logger: logging.Logger, level: int) -> None:
    """Who asks for more in the environment sees it, though the program has not set `logging` up: that
    shows warnings only, then."""
    if logger.level == logging.NOTSET:
        logger.setLevel(level)
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tutti: %(levelname)s: %(message)s"))
        logger.addHandler(handler)


def install_once() -> None:
    """`install`, unless that was done before. `tutti.distributed` calls it when a world is made."""
    if not _installed:
        install()


def remove() -> None:
    """The library is silent, and stays so until the next `install`."""
    global _installed
    _tutti.set_log_sink(None, _tutti.LogLevel.OFF)
    _installed = True
