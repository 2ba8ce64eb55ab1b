"""weights_only under changed and made-up pickles: no crash, no call outside the tables, no memory without end."""

import os
import pathlib
import sys

import pytest

import stacks
from ranks import LONG

pytestmark = pytest.mark.full
FUZZ = pathlib.Path(__file__).with_name("pickle_fuzz.py")


def fuzz(*arguments):
    said = stacks.output([sys.executable, FUZZ, *arguments], 600 if LONG else 200,
                         env={**os.environ, "PYTHONMALLOC": "debug"})
    assert said.endswith("well\n")


def test_each_check_is_missed():
    fuzz("planted")


@pytest.mark.parametrize("seed", range(40 if LONG else 2))
def test_no_pickle_does_harm(seed):
    fuzz(seed, 20_000 if LONG else 2_500)
