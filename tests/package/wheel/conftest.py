"""These tests share helpers and surroundings with those in tests/python."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import surroundings  # noqa: E402, F401
