"""The slowest parts of a run: tests, from JUnit XML, and compilations, from Ninja's logs."""

import os
import xml.etree.ElementTree as ElementTree

COUNT = 20


def seconds_of_tests(path):
    """(seconds, name) of each test of a file of ctest or pytest."""
    label = os.path.basename(os.path.normpath(path)).removesuffix(".xml")
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return []
    found = []
    for case in cases:
        module = case.get("classname", "")
        name = f"{module}::{case.get('name')}" if module not in ("", case.get("name")) else case.get("name")
        found.append((float(case.get("time") or 0), f"{label}: {name}"))
    return found


def seconds_of_compilations(folder):
    """(seconds, output) of each file that Ninja has made there; of its last time only."""
    try:
        with open(os.path.join(folder, ".ninja_log"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    label = os.path.basename(os.path.normpath(folder))
    last = {}
    for line in lines:
        fields = line.split("\t")
        if len(fields) >= 4 and fields[0].isdigit() and fields[1].isdigit():
            last[fields[3]] = (int(fields[1]) - int(fields[0])) / 1000
    return [(seconds, f"{label}: {output}") for output, seconds in last.items()]


def print_slowest(title, found):
    """The slowest of them, if there are any."""
    if not found:
        return
    print(f"the {min(COUNT, len(found))} slowest {title}:")
    for seconds, name in sorted(found, reverse=True)[:COUNT]:
        print(f"  {seconds:8.2f} s  {name}")


def print_all(results, builds):
    """`results`: files of tests, as count_tests.py gets them; `builds`: the folder that holds all build folders."""
    print_slowest("tests", [each for path in results for each in seconds_of_tests(path)])
    names = sorted(os.listdir(builds)) if os.path.isdir(builds) else []
    print_slowest("compilations", [each for name in names
                                   for each in seconds_of_compilations(os.path.join(builds, name))])
