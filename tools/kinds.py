#!/usr/bin/env python3
"""The table of what ranks agree about in each operation, in docs/fingerprint.md, from the table of kinds.

    kinds.py            prints the table
    kinds.py --write    puts it into the page

The numbers are those of `enum class Kind` (include/tutti/collective.hpp), all else the rows of kKindTraits
(include/tutti/kinds.hpp). check_docs.py looks that the page has this table, and that docs/algorithms.md names
each algorithm of src/plan/select.cpp; stubs.py reads the rows, too.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

ALGORITHMS = ("src/plan/select.cpp", "docs/algorithms.md")
NUMBERS = "include/tutti/collective.hpp"
TABLE = "include/tutti/kinds.hpp"
PAGE = "docs/fingerprint.md"
BEGIN = "<!-- The table: tools/kinds.py --write -->"
END = "<!-- The end of the table. -->"

ENUM = re.compile(r"enum class Kind\b[^{]*\{(.*?)\};", re.DOTALL)
ROWS = re.compile(r"kKindTraits\[\] = \{(.*?)\n\};", re.DOTALL)
FREE = "shape, strides, address, timeout, sync or async"


@dataclasses.dataclass
class Kind:
    """A row of kKindTraits, in the words of the C++ code."""

    number: int
    name: str
    layout: str = "none"
    reduces: bool = False
    rooted: bool = False
    reads: str = "all"
    writes: str = "all"
    uneven: str = "no"
    prefix: bool = False


def rows(root):
    """The kinds that there are, in the order of their numbers."""
    enum = ENUM.search((root / NUMBERS).read_text(encoding="utf-8")).group(1)
    numbers = {name: int(number) for name, number in re.findall(r"^\s*(\w+) = (\d+),", enum, re.MULTILINE)}
    found = []
    for number, text in enumerate(re.findall(r"\{(.*?)\}", ROWS.search(
            (root / TABLE).read_text(encoding="utf-8")).group(1), re.DOTALL)):
        words = [word.strip().strip('"').rpartition("::")[2] for word in text.split(",")]
        values = [word == "true" if word in ("true", "false") else word for word in words]
        found.append(Kind(number, *values))
    kinds = [kind for kind in found if kind.name in numbers]
    if any(numbers[kind.name] != kind.number for kind in kinds) or len(kinds) != len(numbers):
        raise SystemExit(f"kinds: the rows of {TABLE} are not those of Kind in {NUMBERS}")
    return kinds


def agreed(kind):
    """Rows of one kind: which calls, agreed by all, pairwise, free."""
    fields = ["kind"] + ["root"] * kind.rooted + ["reduce op"] * kind.reduces + ["dtype"] * (kind.layout != "none")
    name = f"`{kind.name}`"
    if kind.layout == "none":
        return [(name, fields, "-", "timeout, sync or async")]
    if kind.layout == "same":
        return [(name, [*fields, "number of elements"], "-", FREE + ", input and output the same or not")]
    if kind.uneven == "no":
        return [(name, [*fields, "number of elements of a block"], "-", FREE + ", a tensor or a list")]
    if kind.uneven == "agreed":
        return [(name, [*fields, "number of elements of a block; a digest of the numbers where they differ"], "-",
                 FREE + ", a tensor or a list")]
    return [(f"{name} without splits", [*fields, "number of elements of a block"], "-", FREE),
            (f"{name} with splits or lists", [*fields, "that there are splits"], "number of elements of each pair",
             FREE + ", a tensor or a list")]


def table(root):
    """The table of the page."""
    lines = ["| operation | number | agreed by all | pairwise | free on each rank |", "|---|---|---|---|---|"]
    for kind in rows(root):
        if kind.layout != "pair" and kind.name != "new_group":
            lines += [f"| {name} | {kind.number} | {', '.join(fields)} | {pairwise} | {free} |"
                      for name, fields, pairwise, free in agreed(kind)]
    return "\n".join(lines)


def page_with(root):
    """The page as it must be."""
    text = (root / PAGE).read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"kinds: {PAGE} has no place for the table: {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n\n{table(root)}\n\n{END}{behind}"


def faults(root):
    """What check_docs has to say."""
    if not (root / TABLE).exists():
        return
    try:
        if page_with(root) != (root / PAGE).read_text(encoding="utf-8"):
            yield f"{PAGE}: its table is not that of {TABLE}; run: tools/kinds.py --write"
    except SystemExit as wrong:
        yield str(wrong)
    table_of_plans, page = (root / name for name in ALGORITHMS)
    if table_of_plans.exists():
        text = page.read_text(encoding="utf-8")
        for kind, name in re.findall(r'algorithm\(Kind::(\w+), "(\w+)"', table_of_plans.read_text(encoding="utf-8")):
            if f"`{name}`" not in text or not re.search(rf"\b{kind}\b", text):
                yield f"{ALGORITHMS[1]}: {kind}'s algorithm {name} does not stand there"


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
