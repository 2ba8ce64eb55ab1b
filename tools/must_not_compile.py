#!/usr/bin/env python3
"""Checks that a source compiles, and that each of its planted misuses does not.

    must_not_compile.py --source a.cpp --cases temporary const_target -- g++ -std=c++20 ...

A misuse stands behind `#if defined(TUTTI_CASE_<case>)` or `#elif`. Somewhere in the source a line
`// <case>: text` says what the compiler must tell: a refusal for another reason is a failure. If
the text begins with "tutti: " it must stand in the first line of the only error: that is the one line that a user is to
read. The headers of the source are read once for all cases, as a precompiled header: it takes far longer than they do.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

SECONDS = 60


def compile_source(command, source, *defines):
    return subprocess.run([*command, *defines, "-fsyntax-only", source], capture_output=True,
                          text=True, timeout=SECONDS, check=False)


def precompile_includes(command, text, folder):
    """Arguments with which the source finds its headers compiled; none where that cannot be."""
    includes = re.findall(r"^#include <.+>$", text, re.MULTILINE)
    header = os.path.join(folder, "includes.hpp")
    with open(header, "w", encoding="utf-8") as file:
        file.write("\n".join(includes) + "\n")
    done = subprocess.run([*command, "-x", "c++-header", header, "-o", header + ".gch"],
                          capture_output=True, timeout=SECONDS, check=False)
    return ["-include", header] if includes and done.returncode == 0 else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--cases", nargs="+", required=True)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()

    with open(args.source, encoding="utf-8") as file:
        text = file.read()
    with tempfile.TemporaryDirectory() as folder:
        command = args.command + precompile_includes(args.command, text, folder)
        return check(command, args.source, args.cases, text)


def check(command, source, cases, text):
    done = compile_source(command, source)
    if done.returncode != 0:
        print(f"without any misuse it must compile:\n{done.stderr}")
        return 1

    faults = 0
    for case in cases:
        expected = re.search(rf"^\s*// {case}: (.+)$", text, re.MULTILINE)
        if expected is None or f"TUTTI_CASE_{case}" not in text:
            print(f"{case}: the source has no such case, or no line `// {case}: text`")
            faults += 1
            continue
        told = expected.group(1).strip()
        done = compile_source(command, source, f"-DTUTTI_CASE_{case}")
        if done.returncode == 0:
            print(f"{case}: compiles, and must not")
            faults += 1
        elif told not in done.stderr:
            print(f"{case}: refused, but not with: {told}\n{done.stderr}")
            faults += 1
        elif told.startswith("tutti: ") and told not in done.stderr.partition(": error: ")[2].partition("\n")[0]:
            print(f"{case}: the first line of the error does not hold: {told}\n{done.stderr}")
            faults += 1
        elif told.startswith("tutti: ") and done.stderr.count(": error: ") != 1:
            print(f"{case}: refused with other errors beside this one\n{done.stderr}")
            faults += 1
        else:
            print(f"{case}: refused as it must be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
