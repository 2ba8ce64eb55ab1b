#!/usr/bin/env python3
"""Runs torch's own tests of a backend, as torch's wheel holds them, on "tutti".

    run.py [--backend tutti] [--world-size 3] [--record] [test ...]

What gloo is tested with is run: torch's tests are loaded as gloo's, then the name of the backend is exchanged. So
are the tests of all_to_all, which are loaded as MPI's. expected.toml has a reason for each test that is skipped or
fails. A test that is not in it must pass, and one that is in it must not, so that the list shrinks. --record adds
the tests that it does not know yet, with what they said as their reason.
"""

import argparse
import collections
import fnmatch
import importlib.util
import json
import os
import pathlib
import sys
import tempfile
import textwrap
import tomllib
import unittest

EXPECTED = pathlib.Path(__file__).with_name("expected.toml")
LIMIT = 60  # seconds for one test

arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
arguments.add_argument("--backend", default="tutti", choices=["tutti", "gloo"])
arguments.add_argument("--world-size", type=int, default=3)
arguments.add_argument("--record", action="store_true")
arguments.add_argument("tests", nargs="*", help="names of tests [all]")
options = arguments.parse_args()

# The suite reads these when it is imported.
os.environ.update(BACKEND="gloo", WORLD_SIZE=str(options.world_size), CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
os.environ.setdefault("TEMP_DIR", tempfile.mkdtemp(prefix="conformance-"))

import torch  # noqa: E402

import tutti.torch  # noqa: E402, F401
from torch.testing._internal import common_distributed  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

common_distributed.TIMEOUT_DEFAULT = LIMIT
common_distributed.TIMEOUT_OVERRIDE.clear()


class Name(str):
    """The name of the backend, which the tests take for the one that they were loaded for, too."""

    def __new__(cls, name, other):
        made = super().__new__(cls, name)
        made.other = other
        return made

    def __eq__(self, name):
        return str.__eq__(self, name) or name == self.other

    def __ne__(self, name):
        return not self == name

    __hash__ = str.__hash__


def loaded_for(backend):
    """The module of torch's tests, with what it skips for this backend."""
    os.environ["BACKEND"] = backend
    spec = importlib.util.spec_from_file_location(f"distributed_test_of_{backend}", distributed_test.__file__)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.BACKEND = Name(options.backend, backend)
    return module


def made_of(module):
    """Its tests, in processes that are forked from this one, which has imported torch."""

    class ConformanceTest(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return ConformanceTest


def as_mpi(name):
    return options.backend == "tutti" and name.startswith("test_all_to_all") and "cuda" not in name


def make_suite():
    gloo, mpi = made_of(loaded_for("gloo")), made_of(loaded_for("mpi"))
    names = options.tests or unittest.TestLoader().getTestCaseNames(gloo)
    return list(names), unittest.TestSuite((mpi if as_mpi(name) else gloo)(name) for name in names)


def text_of(table):
    """The table as a file has it, below what the file says first."""
    parts = [EXPECTED.read_text(encoding="utf-8").partition("\n[")[0]]
    for kind, reasons in table.items():
        parts.append(f"\n[{kind}]\n")
        for reason, tests in reasons.items():
            line = f"{json.dumps(reason)} = {json.dumps(tests)}\n"
            listed = textwrap.fill(json.dumps(tests)[1:-1], 110, initial_indent="  ", subsequent_indent="  ")
            parts.append(line if len(line) <= 110 else f"{json.dumps(reason)} = [\n{listed}\n]\n")
    return "".join(parts)


def reason_of(text):
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line.split(":")[0] and not line.startswith("RuntimeError: Process ")]
    return (errors or lines or ["?"])[-1][:160]


class Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.stream.flush()


def run():
    names, suite = make_suite()
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    seen = {name: ("pass", "") for name in names}
    for test, text in result.skipped:
        seen[test._testMethodName] = "skip", text
    for test, text in result.failures + result.errors:
        seen[test._testMethodName] = "fail", reason_of(text)
    return seen


def main():
    seen = run()
    counts = collections.Counter(kind for kind, _ in seen.values())
    print(f"{options.backend}, {options.world_size} ranks: {counts['pass']} passed, {counts['skip']} skipped, "
          f"{counts['fail']} failed")
    if options.backend != "tutti":
        return 0
    table = tomllib.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    known = {name: kind for kind, reasons in table.items() for patterns in reasons.values() for pattern in patterns
             for name in fnmatch.filter(seen, pattern)}
    wrong = []
    for name, (kind, reason) in sorted(seen.items()):
        if kind == "pass" and name in known:
            wrong.append(f"{name} passes: take it out of expected.toml")
        elif kind != "pass" and known.get(name) != kind:
            wrong.append(f"{name}: {kind}: {reason}")
    if options.record:
        new = collections.defaultdict(list)
        for name, (kind, reason) in sorted(seen.items()):
            if kind != "pass" and name not in known:
                new[kind, reason].append(name)
        for kind, reason in sorted(new):
            tests = table.setdefault(kind, {}).setdefault(reason, [])
            tests += new[kind, reason]
        EXPECTED.write_text(text_of(table), encoding="utf-8")
        return 0
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
