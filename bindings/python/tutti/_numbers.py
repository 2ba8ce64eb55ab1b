"""Whole numbers of variables and URLs, as the library itself reads them (src/base/number.hpp)."""

import os

_BLANKS = " \t\n\v\f\r"


def without_blanks(text: str) -> str:
    """The text without the blanks around it, which YAML and the `read` of shells leave there."""
    return text.strip(_BLANKS)


def whole_number(text: str, name: str) -> int:
    """The number: decimal digits, with blanks around them. ValueError for anything else; `name`: of what it is."""
    number = without_blanks(text)
    digits = number.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{name} is {text!r}, which is not a whole number")
    return int(number)


def variable(name: str, default: int) -> int:
    """The number of that variable, or the default where it is not set or empty. ValueError if it is no number."""
    text = os.environ.get(name)
    return whole_number(text, name) if text else default
