#!/usr/bin/env python3
"""The texts in this repository that are made of others: tables of pages (kinds.py, promises.py, peers.py), the faces of the
collectives in C and Python (faces.py, stubs.py), and pictures that need no program (pictures.py).

    made.py            tells which files have another text than they must have
    made.py --write    writes them, and formats what is C++

check_docs.py tells it, too. Each of those modules has a function `made`, which gives for each text: its file, the mark
before it (None: it is the whole file), the text, the mark behind it, and what is wrong with a file that has another.
"""

import argparse
import pathlib
import re
import subprocess
import sys

import compilers
import faces
import kinds
import peers
import pictures
import promises
import stubs


def wanted(root):
    """Each file as it must be, and what is wrong with another."""
    files = {}
    for module in (compilers, kinds, promises, peers, faces, stubs, pictures):
        for file, begin, text, end, why in module.made(root):
            if begin is not None:
                now = files[file][0] if file in files else (root / file).read_text(encoding="utf-8")
                before, start, rest = now.partition(begin)
                _, stop, behind = rest.partition(end)
                if not start or not stop:
                    raise SystemExit(f"{file} has no place for what is made: {begin} ... {end}")
                text = before + start + text + stop + behind
            files[file] = text, why
    return files


def tokens(text):
    """C++ without what the formatter changes."""
    return re.sub(r'"\s*"|\s', "", text)


def faults(root):
    """What check_docs has to say."""
    try:
        for file, (text, why) in wanted(root).items():
            now = (root / file).read_text(encoding="utf-8")
            if now != text and not (file.endswith(".cpp") and tokens(now) == tokens(text)):
                yield f"{file}: {why}; run: tools/made.py --write"
    except SystemExit as wrong:
        yield str(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    if args.write:
        for file, (text, _) in wanted(args.root).items():
            (args.root / file).write_text(text, encoding="utf-8")
            if file.endswith(".cpp"):
                subprocess.run(["clang-format-14", "-i", args.root / file], check=True)
    found = list(faults(args.root))
    print("\n".join([*found, f"{len(found)} texts that must be made"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
