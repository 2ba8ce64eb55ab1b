#!/usr/bin/env python3
"""Checks that a source compiles, and that each of its planted misuses does not.

    must_not_compile.py --source a.cpp --cases temporary const_target -- g++ -std=c++20 ...

A misuse stands between `#ifdef TUTTI_CASE_<case>` and `#endif`. Somewhere in the source a line
`// <case>: text` says what the compiler must tell: a refusal for another reason is a failure.
"""

import argparse
import re
import subprocess
import sys

SECONDS = 60


def compile_source(command, source, *defines):
    return subprocess.run([*command, *defines, "-fsyntax-only", source], capture_output=True,
                          text=True, timeout=SECONDS, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", required=True)
    parser.add_argument("--cases", nargs="+", required=True)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()

    with open(args.source, encoding="utf-8") as file:
        text = file.read()
    done = compile_source(args.command, args.source)
    if done.returncode != 0:
        print(f"without any misuse it must compile:\n{done.stderr}")
        return 1

    faults = 0
    for case in args.cases:
        expected = re.search(rf"^\s*// {case}: (.+)$", text, re.MULTILINE)
        if expected is None or f"TUTTI_CASE_{case}" not in text:
            print(f"{case}: the source has no such case, or no line `// {case}: text`")
            faults += 1
            continue
        done = compile_source(args.command, args.source, f"-DTUTTI_CASE_{case}")
        if done.returncode == 0:
            print(f"{case}: compiles, and must not")
            faults += 1
        elif expected.group(1).strip() not in done.stderr:
            print(f"{case}: refused, but not with: {expected.group(1)}\n{done.stderr}")
            faults += 1
        else:
            print(f"{case}: refused as it must be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
