"""The library's remarks, through Python's `logging`."""

import logging
import os
import socket
import sys

from tutti import _tutti, rank0

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
        if os.environ.get("TUTTI_LOG_LEVEL") and to.level == logging.NOTSET:
            to.setLevel(_LEVELS[least])
    if not any(isinstance(one, _LastResort) for one in to.handlers):
        to.addHandler(_LastResort())

    def sink(level: _tutti.LogLevel, text: str) -> None:
        to.log(_LEVELS.get(level, logging.ERROR), "%s", text)

    _tutti.set_log_sink(sink, least)
    _installed = True


class _LastResort(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error, with the time, the host and the rank, while the program has given `logging` no
    handler. Python's own last resort shows the bare text of warnings."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(rank0.RankFilter())
        self.setFormatter(logging.Formatter(
            f"tutti: %(asctime)s {socket.gethostname()} rank %(rank)s: %(levelname)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the line, unless the program has a handler that does."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(one is not self for one in logger.handlers):
                return
            logger = logger.parent if logger.propagate else None
        self.stream = sys.stderr
        super().emit(record)


def install_once() -> None:
    """`install`, unless that was done before. `tutti.distributed` calls it when a world is made."""
    if not _installed:
        install()


def remove() -> None:
    """The library is silent, and stays so until the next `install`."""
    global _installed
    _tutti.set_log_sink(None, _tutti.LogLevel.OFF)
    _installed = True
