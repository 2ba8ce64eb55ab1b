#!/usr/bin/env python3
"""Nothing that is installed holds what only proves: see src/verify.

    shipped_test.py --nm nm --verify libtutti_verify.a --shipped libtutti.a program ...
"""

import argparse
import subprocess
import sys

NAMESPACE = "5tutti6verify"  # as it is mangled


def symbols(nm, path):
    """Names that are defined in it or wanted by it."""
    listed = subprocess.run([nm, path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=True).stdout
    return [line.split()[-1] for line in listed.splitlines() if len(line.split()) > 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nm", required=True)
    parser.add_argument("--verify", required=True)
    parser.add_argument("--shipped", nargs="+", required=True)
    args = parser.parse_args()

    faults = []
    if not any(NAMESPACE in name for name in symbols(args.nm, args.verify)):
        faults.append(f"{args.verify} has no symbol of tutti::verify: this test sees nothing")
    for path in args.shipped:
        names = symbols(args.nm, path)
        if not names:
            faults.append(f"{path} has no symbols at all: this test sees nothing")
        faults += [f"{path} holds {name}" for name in names if NAMESPACE in name]
    print("\n".join(faults + [f"{len(args.shipped)} files, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
