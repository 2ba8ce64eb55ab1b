#!/usr/bin/env python3
"""Adds up test results and prints the line `N passed, N failed[, N skipped]`.

    count_tests.py [--broken WHAT]... [--whole N] [--builds build] build/dev/ctest/unit.xml build/results/python.xml ...

Each file is JUnit XML. One in a folder `ctest` is ctest's: for a GoogleTest program ../test-results/<test>.xml is read,
too, so that every case counts and none skips unseen. Others are as pytest writes them. Anything missing, unreadable or
empty counts as one failure, and so do a program that ran no case and a skip that tools/allowed_skips.toml does not allow.
Exit status 1 when something failed, or nothing passed. Skips come first, then the slowest tests and compilations. Failures stand right before the last
line, each with its reason: a reader who sees only the end of a long log has them there.
"""

import argparse
import collections
import os
import sys
import traceback
import xml.etree.ElementTree as ElementTree

import slowest
from allowed_skips import ROOT, TABLE, AllowedSkips

REASON_LINES = 15
REASON_CHARACTERS = 2000


def reason_of(case):
    """Why it failed: the end of what it printed, or else what its failures say."""
    printed = "\n".join(found.text or "" for found in case.iter("system-out")).strip()
    if printed:
        return printed[-REASON_CHARACTERS:]
    texts = [found.get("message") or found.text or "" for kind in ("failure", "error")
             for found in case.iter(kind)]
    return "\n".join(text.strip() for text in texts)[:REASON_CHARACTERS]


def skip_reason_of(case):
    """Why it was skipped: pytest's and GoogleTest's message, and the text beside it."""
    found = case.find("skipped")
    if found is None:
        return "disabled"
    return f"{found.get('message') or ''}\n{found.text or ''}".strip()


def outcome(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return "failed"
    if case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
        return "skipped"
    return "passed"


def count_junit(path):
    cases = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        state = outcome(case)
        why = skip_reason_of(case) if state == "skipped" else reason_of(case)
        module = case.get("classname")
        cases.append((f"{module}::{case.get('name')}" if module else case.get("name"), state, why))
    return cases


def count_gtest(path):
    """Cases of one GoogleTest program; a disabled one was not meant to run."""
    cases = []
    for suite in ElementTree.parse(path).getroot().iter("testsuite"):
        for case in suite.iter("testcase"):
            name = f"{suite.get('name')}.{case.get('name')}"
            if case.get("result") == "skipped" or case.get("status") != "run":
                cases.append((name, "skipped", skip_reason_of(case)))
            else:
                cases.append((name, outcome(case), reason_of(case)))
    return cases


def is_of_ctest(path):
    return os.path.basename(os.path.dirname(os.path.abspath(path))) == "ctest"


def label_of(path):
    """The preset, or the first word of the file's name: allowed skips name it."""
    absolute = os.path.abspath(path)
    if is_of_ctest(path):
        return os.path.basename(os.path.dirname(os.path.dirname(absolute)))
    return os.path.basename(absolute).removesuffix(".xml").partition("_")[0]


def count_ctest(path):
    cases = []
    folder = os.path.dirname(os.path.dirname(os.path.abspath(path)))
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        # ctest says "fail" for what failed, "notrun" for what could not run or was skipped.
        state = {"run": "passed", "fail": "failed"}.get(case.get("status"), outcome(case))
        if case.get("status") == "notrun" and case.find("skipped") is not None:
            reason = case.find("skipped").get("message", "")
            # A program that is missing is a failure, not a skip.
            state = "skipped" if reason.startswith("SKIP_") else "failed"
        details = os.path.join(folder, "test-results", name + ".xml")
        inner = []
        if os.path.exists(details):
            try:
                inner = count_gtest(details) or [(name, "failed", f"no case ran\n{reason_of(case)}")]
            except ElementTree.ParseError:
                pass  # the program died while writing: ctest's word stands
        if state == "failed" and not any(result == "failed" for _, result, _ in inner):
            inner.append((name, "failed", reason_of(case)))  # a crash, a leak, a time-out
        why = skip_reason_of(case) if state == "skipped" else reason_of(case)
        cases += [(f"{name}: {inner_name}", result, text) for inner_name, result, text in inner] or [
            (name, state, why)]
    return cases


def cases_of(path):
    return count_ctest(path) if is_of_ctest(path) else count_junit(path)


def judged(cases, path, allowed):
    """The cases, where a skip that is not allowed has failed."""
    result = label_of(path)
    for name, state, why in cases:
        objection = allowed.objection(result, path, why) if state == "skipped" else None
        if objection is not None:
            state, why = "failed", f"skipped: {why}\n{objection}"
        yield name, state, why


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--broken", action="append", default=[], metavar="WHAT", help="a failure that no file tells")
    parser.add_argument("--whole", type=int, default=0, metavar="N", help="so much has passed that no file tells")
    parser.add_argument("--builds", default=str(ROOT / "build"), help="folder of all build folders")
    parser.add_argument("--skips", default=TABLE, help="the table of allowed skips")
    parser.add_argument("results", nargs="*")
    args = parser.parse_args()

    allowed = AllowedSkips(args.skips)
    total = collections.Counter(failed=len(args.broken), passed=args.whole)
    failures = [f"failed: {what}" for what in args.broken]
    for path in args.results:
        try:
            cases = cases_of(path)
        except (OSError, ElementTree.ParseError) as error:
            cases = [(f"no results: {error}", "failed", "")]
        # Other parts that pass must not hide a part whose tests were not found.
        cases = cases or [("no test ran", "failed", "")]
        for name, result, why in judged(cases, path, allowed):
            total[result] += 1
            if result == "skipped":
                print(f"skipped: {path}: {name}\n    {' '.join(why.split())}")
            if result == "failed":
                failures.append(f"failed: {path}: {name}")
                failures += [f"    {line}" for line in why.splitlines()[-REASON_LINES:]]

    slowest.print_all(args.results, args.builds)
    if failures:
        print("\n".join(failures))
    line = f"{total['passed']} passed, {total['failed']} failed"
    if total["skipped"]:
        line += f", {total['skipped']} skipped"
    print(line)
    return 1 if total["failed"] or not total["passed"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # the last line is a count, whatever goes wrong
        traceback.print_exc()
        print("0 passed, 1 failed", flush=True)
        sys.exit(1)
