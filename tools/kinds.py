"""The reference tables of the operations, from the table of kinds: docs/reference/semantics.md and docs/design/fingerprint.md.

The numbers are those of `enum class Kind`, all else the rows of kKindTraits (both include/tutti/backend/kinds.hpp). made.py puts
them into the pages, and makes the faces in C and Python from the rows. check_docs.py looks that every place of an
operation (PLACES) has each kind, and that docs/design/algorithms.md names each algorithm of src/plan/select.cpp.
"""

import dataclasses
import re

ALGORITHMS = ("src/plan/select.cpp", "docs/design/algorithms.md")
TABLE = "include/tutti/backend/kinds.hpp"
# Where each kind must stand, in which form, and those that a place leaves out on purpose.
PLACES = {
    "include/tutti/process_group.hpp": (r"^  Work .*\b{}\(|^  .* {}\(", ()),
    "src/plan/select.cpp": ("Kind::{},", ("new_group", "send", "recv", "probe")),
    "bindings/python/tutti/distributed/collectives.py": (r"^def {}\(", ("new_group", "send", "recv", "probe")),
    "apps/bench/peers/tutti_library.cpp": ("Operation::{}:", ("new_group", "recv", "probe")),
    "apps/bench/peers/mpi_worker.cpp": ("Operation::{}:", ("new_group", "recv", "probe")),
    "tests/support/operations.hpp": ("Kind::{}[,}]", ("recv", "probe")),
    "tests/python/core/operation_cases.py": (r"^def {}\(", ("barrier", "new_group", "send", "recv", "probe")),
    "docs/reference/semantics.md": (r"^## .*\b{}\b", ()),
    "docs/design/algorithms.md": (r"^\| where \|.*\b{}\b", ("new_group", "send", "recv", "probe")),
    "docs/reference/torch-names.md": (r"`{}[`(]", ()),
    "README.md": (r"`{}`", ()),
    "README.zh-CN.md": (r"`{}`", ()),
    "examples/10_every_operation.cpp": (r"\bi?{}(?:_\w+)?\(", ("new_group",)),
    "examples/python/10_every_operation.py": (r"\bi?{}(?:_\w+)?\(", ("new_group",)),
}
BEGIN = "<!-- The table: tools/made.py --write -->"
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
    header = (root / TABLE).read_text(encoding="utf-8")
    enum = ENUM.search(header).group(1)
    numbers = {name: int(number) for name, number in re.findall(r"^\s*(\w+) = (\d+),", enum, re.MULTILINE)}
    found = []
    for number, text in enumerate(re.findall(r"\{(.*?)\}", ROWS.search(header).group(1), re.DOTALL)):
        words = [word.strip().strip('"').rpartition("::")[2] for word in text.split(",")]
        values = [word == "true" if word in ("true", "false") else word for word in words]
        found.append(Kind(number, *values))
    kinds = [kind for kind in found if kind.name in numbers]
    if any(numbers[kind.name] != kind.number for kind in kinds) or len(kinds) != len(numbers):
        raise SystemExit(f"kinds: the rows of {TABLE} are not those of Kind")
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
    if kind.rooted:
        return [(f"{name} without counts", [*fields, "number of elements of a block"], "-", FREE + ", a tensor or a list"),
                (f"{name} with counts", [*fields, "that there are counts"],
                 "number of elements of a block, between the root and its rank", FREE + ", a tensor or a list")]
    return [(f"{name} without splits", [*fields, "number of elements of a block"], "-", FREE),
            (f"{name} with splits or lists", [*fields, "that there are splits"], "number of elements of each pair",
             FREE + ", a tensor or a list")]


def agreement_table(root):
    """What ranks must agree about."""
    lines = ["| operation | number | agreed by all | pairwise | free on each rank |", "|---|---|---|---|---|"]
    for kind in rows(root):
        if kind.layout != "pair" and kind.name != "new_group":
            lines += [f"| {name} | {kind.number} | {', '.join(fields)} | {pairwise} | {free} |"
                      for name, fields, pairwise, free in agreed(kind)]
    return "\n".join(lines)


ELEMENTS = {"none": ("-", "-"), "same": ("all elements", "all elements"), "gather": ("its block", "all blocks"),
            "scatter": ("all blocks", "its block"), "exchange": ("a block for each rank", "a block from each rank")}
RANKS = {"all": "", "root": " (the root)", "others": " (all but the root)", "after_first": " (all but rank 0)"}
UNEVEN = {"no": "-", "agreed": "yes, alike on all ranks", "pairwise": "yes, alike on both ranks of a pair"}
ROOT_KNOWS = "yes, the root gives all, each other rank its own"


def operation_table(root):
    """What each collective reads and writes."""
    lines = ["| operation | input of a rank | output of a rank | reduce op | root | blocks of different sizes |",
             "|---|---|---|---|---|---|"]
    for kind in rows(root):
        if kind.layout != "pair":
            reads, writes = ELEMENTS[kind.layout]
            cells = [f"`{kind.name}`", reads + RANKS[kind.reads], writes + RANKS[kind.writes],
                     "yes" if kind.reduces else "-", "yes" if kind.rooted else "-",
                     ROOT_KNOWS if kind.rooted and kind.uneven == "pairwise" else UNEVEN[kind.uneven]]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


PAGES = {"docs/reference/semantics.md": operation_table, "docs/design/fingerprint.md": agreement_table}


def made(root):
    """Of made.py: the tables of the pages."""
    if (root / TABLE).exists():
        for page, table in PAGES.items():
            yield page, BEGIN, f"\n\n{table(root)}\n\n", END, f"its table is not that of {TABLE}"


def missing(root):
    """Places that lack a kind. Programs call an exclusive kind by an option of the other one."""
    for place, (form, left_out) in PLACES.items():
        text = (root / place).read_text(encoding="utf-8") if (root / place).exists() else None
        for kind in rows(root) if text is not None else ():
            found = any(re.search(form.replace("{}", name), text, re.MULTILINE)
                        for name in (kind.name, kind.name.removeprefix("exclusive_")))
            if not found and kind.name not in left_out:
                yield f"{place}: {kind.name} is missing; this place has each kind of {TABLE} (tools/kinds.py)"


def faults(root):
    """What check_docs has to say."""
    if not (root / TABLE).exists():
        return
    try:
        yield from missing(root)
    except SystemExit as wrong:
        yield str(wrong)
    table_of_plans, page = (root / name for name in ALGORITHMS)
    if table_of_plans.exists():
        text = page.read_text(encoding="utf-8")
        for kind, name in re.findall(r'algorithm\(Kind::(\w+), "(\w+)"', table_of_plans.read_text(encoding="utf-8")):
            if f"`{name}`" not in text or not re.search(rf"\b{kind}\b", text):
                yield f"{ALGORITHMS[1]}: {kind}'s algorithm {name} does not stand there"
