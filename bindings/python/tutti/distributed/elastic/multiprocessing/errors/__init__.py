"""Tells the launcher why a process failed: `@record` at the main function."""

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def write_error(problem: BaseException) -> None:
    """The error as JSON, where a launcher has asked for it (TORCHELASTIC_ERROR_FILE); the first one stays."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    told = {"message": {"message": f"{type(problem).__name__}: {problem}",
                        "extraInfo": {"py_callstack": "".join(traceback.format_exception(problem)),
                                      "timestamp": str(int(time.time()))}}}
    try:
        with open(path, "x", encoding="utf-8") as file:
            json.dump(told, file)
    except OSError:
        pass  # the error itself is what counts, and it goes on


def record(fn: Callable[P, R], error_handler: Any = None) -> Callable[P, R | None]:
    """The function, whose exceptions are written to the file in TORCHELASTIC_ERROR_FILE before they go on. `sys.exit(0)`
    in it returns None. `error_handler`: an object with `initialize()` and `record_exception(error)` that does it instead."""

    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R | None:
        if error_handler is not None:
            error_handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except Exception as problem:
            (write_error if error_handler is None else error_handler.record_exception)(problem)
            raise

    return wrapper
