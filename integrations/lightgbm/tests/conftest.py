"""Lets the tests use what runs Python on several processes: tests/python."""

import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[3] / "tests" / "python")]

import surroundings  # noqa: E402,F401
