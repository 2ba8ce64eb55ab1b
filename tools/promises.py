"""The tables of docs/reference/backends.md, from what the code declares: the operations that each backend has, on
tensors of the CPU and of a GPU, and what the backends on MPI and NCCL promise.

The operations are the rows of kinds.py, and kTakes and kLacks in src/backend/<name>/promises.hpp. The titles are the
comments of `enum class Promise` (include/tutti/promises.hpp), the answers the rows of kPromises
(src/backend/<name>/promises.hpp). check_docs.py looks that the page has this table, that each backend has one row for
each promise, and that the tests exist that the rows name.
"""

import re

import kinds

HEADER = "include/tutti/promises.hpp"
BACKENDS = ("native", "mpi", "nccl")
SHOWN = ("mpi", "nccl")
PAGE = "docs/reference/backends.md"
BEGIN = "<!-- The table{}: tools/made.py --write -->"
END = "<!-- The end of the table. -->"
DEVICES = {"cpu": "CPU", "cuda": "GPU"}

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
    lines = ["| promise | on " + " | on ".join(SHOWN) + " | test |", "|---|" + "---|" * len(SHOWN) + "---|"]
    for (name, title), *declared in zip(titles(root).items(), *(rows(root, one) for one in SHOWN), strict=True):
        answers = [("yes" if kept else "no") + (f": {how}" if how else "") for _, kept, how, _ in declared]
        tests = list(dict.fromkeys(f"`{test.split()[-1]}`" for *_, test in declared if test)) or ["none"]
        assert all(row[0] == name for row in declared), name
        lines.append(f"| {title} | {' | '.join(answers)} | {', '.join(tests)} |")
    return "\n".join(lines)


def declared_list(root, backend, name):
    """The names in an array of a backend's promises.hpp; a backend without that array lists nothing."""
    text = (root / f"src/backend/{backend}/promises.hpp").read_text(encoding="utf-8")
    found = re.search(rf"\b{name}\[\] = \{{([^}}]*)\}}", text)
    return re.findall(r"::(\w+)", found.group(1)) if found else []


def operation_cell(kind, device, takes, lacks):
    if kind.name in lacks or (kind.layout != "none" and device not in takes):
        return "-"
    return "yes"


def operation_table(root):
    """Operation x backend x device."""
    columns = [(backend, device) for backend in BACKENDS for device in DEVICES]
    lines = ["| operation | " + " | ".join(f"{backend}, {DEVICES[device]}" for backend, device in columns) + " |",
             "|---|" + "---|" * len(columns)]
    takes, lacks = ({backend: declared_list(root, backend, name) for backend in BACKENDS}
                    for name in ("kTakes", "kLacks"))
    for kind in kinds.rows(root):
        cells = [operation_cell(kind, device, takes[backend], lacks[backend]) for backend, device in columns]
        lines.append(f"| `{kind.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES = {"": table, " of operations": operation_table}


def made(root):
    """Of made.py: the tables of the page. None where the backends' rows are wrong."""
    if (root / HEADER).exists() and all([name for name, *_ in rows(root, one)] == list(titles(root)) for one in BACKENDS):
        for name, table_of in TABLES.items():
            yield PAGE, BEGIN.format(name), f"\n\n{table_of(root)}\n\n", END, "its table is not what the backend declares"


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
