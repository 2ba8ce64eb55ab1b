"""weights_only under changed and made-up pickles: no crash, no call outside the tables, no memory without end."""

import os
import pathlib
import subprocess
import sys

import pytest

LONG = os.environ.get("TUTTI_LONG_TESTS", "0") not in ("", "0")
FUZZ = pathlib.Path(__file__).with_name("pickle_fuzz.py")


def fuzz(*arguments):
    done = subprocess.run([sys.executable, str(FUZZ), *map(str, arguments)], capture_output=True, text=True,
                          timeout=600 if LONG else 200, check=False, env={**os.environ, "PYTHONMALLOC": "debug"})
    assert done.returncode == 0 and done.stdout.endswith("well\n"), \
        f"{FUZZ.name} {arguments}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-6000:]}"


def test_each_check_is_missed():
    fuzz("planted")


@pytest.mark.parametrize("seed", range(40 if LONG else 2))
def test_no_pickle_does_harm(seed):
    fuzz(seed, 20_000 if LONG else 2_500)
