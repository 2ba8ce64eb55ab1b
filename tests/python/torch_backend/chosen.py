"""Which tests run: all of them with TUTTI_LONG_TESTS or TUTTI_ROTATION=all; else TUTTI_ROTATION chooses among some."""

import os

LONG = os.environ.get("TUTTI_LONG_TESTS", "0") not in ("", "0")
_TURN = os.environ.get("TUTTI_ROTATION") or "0"


def in_turn(cases, parts=None, slower=1):
    """One part of so many of these cases, by default one case; it changes with each `slower`th turn."""
    if LONG or _TURN == "all":
        return list(cases)
    parts = parts or len(cases)
    return list(cases)[int(_TURN) // slower % parts::parts]
