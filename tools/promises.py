#!/usr/bin/env python3
"""The table of what the backend on MPI promises, in docs/backends.md, from what the code declares.

    promises.py            prints the table
    promises.py --write    puts it into the page

The titles are the comments of `enum class Promise` (include/tutti/promises.hpp), the answers the rows of
kPromises (src/backend/<name>/promises.hpp). check_docs.py looks that the page has this table, that each
backend has one row for each promise, and that the tests exist that the rows name.
"""

import argparse
import pathlib
import re
import sys

HEADER = "include/tutti/promises.hpp"
BACKENDS = ("native", "mpi")
PAGE = "docs/backends.md"
BEGIN = "<!-- The table: tools/promises.py --write -->"
END = "<!-- The end of the table. -->"

ENUM = re.compile(r"enum class Promise[^{]*\{(.*?)\};", re.DOTALL)
TITLED = re.compile(r"((?:^ *///.*\n)+) *(\w+)", re.MULTILINE)
LITERAL = r'"(?:\\.|[^"\\])*"'
TEXT = rf"((?:{LITERAL}\s*)+)"
ROW = re.compile(rf"\{{Promise::(\w+),\s*(true|false),\s*{TEXT},\s*{TEXT}\}}")


def joined(literals):
    """What adjacent string literals say."""
    return "".join(re.findall(LITERAL, literals)).replace('""', "").strip('"')


def titles(root):
    """Name of each promise and its title, in their order."""
    body = ENUM.search((root / HEADER).read_text(encoding="utf-8")).group(1)
    return {name: " ".join(re.findall(r"/// ?(.*)", comment)).rstrip(".")
            for comment, name in TITLED.findall(body)}


def rows(root, backend):
    """Of a backend: (promise, kept, what else is to be said, test)."""
    text = (root / f"src/backend/{backend}/promises.hpp").read_text(encoding="utf-8")
    found = [(name, kept == "true", joined(how), joined(test)) for name, kept, how, test in ROW.findall(text)]
    if len(found) != text.count("{Promise::"):
        raise SystemExit(f"promises: a row of src/backend/{backend}/promises.hpp cannot be read")
    return found


def table(root):
    lines = ["| promise | on mpi | test |", "|---|---|---|"]
    known = titles(root)
    for name, kept, how, test in rows(root, "mpi"):
        answer = ("yes" if kept else "no") + (f": {how}" if how else "")
        lines.append(f"| {known[name]} | {answer} | {'`' + test.split()[-1] + '`' if test else 'none'} |")
    return "\n".join(lines)


def page_with(root):
    """The page as it must be."""
    text = (root / PAGE).read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"promises: {PAGE} has no place for the table: {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{table(root)}\n\n{END}{behind}"


def faults(root):
    """What check_docs has to say."""
    if not (root / HEADER).exists():
        return
    known = titles(root)
    for backend in BACKENDS:
        where = f"src/backend/{backend}/promises.hpp"
        declared = rows(root, backend)
        if [name for name, *_ in declared] != list(known):
            yield f"{where}: its rows are not those of Promise, in their order"
            return
        for name, _, _, test in declared:
            file, _, case = test.partition(" ")
            path = root / "tests" / file
            if test and not (path.is_file() and case in path.read_text(encoding="utf-8")):
                yield f"{where}: {name} names a test that is not there: {test}"
    if page_with(root) != (root / PAGE).read_text(encoding="utf-8"):
        yield f"{PAGE}: its table is not what the backend declares; run: tools/promises.py --write"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    if args.write:
        (args.root / PAGE).write_text(page_with(args.root), encoding="utf-8")
    else:
        print(table(args.root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
