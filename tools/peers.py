"""The lines of the programs of examples/peers, which do the same with tutti, MPI and c10d: the table of a page. A program
is what stands behind a line `// ---- name`, up to the next such line; comments and empty lines do not count."""

import re

from kinds import BEGIN, END

FOLDER = "examples/peers"
PEERS = {"tutti": "tutti", "mpi": "MPI", "c10d": "c10d"}
PAGE = "docs/how-to/from-mpi.md"
MARK = re.compile(r"^ *// ---- (.+)$")


def lines_of(text):
    """The number of lines of each program."""
    counts, name = {}, "end"
    for line in text.splitlines():
        if found := MARK.match(line):
            name = found[1]
            counts[name] = 0
        elif name != "end" and line.strip() and not line.lstrip().startswith("//"):
            counts[name] += 1
    counts.pop("end", None)
    return counts


def table(root):
    counts = {peer: lines_of((root / FOLDER / f"{peer}.cpp").read_text(encoding="utf-8")) for peer in PEERS}
    programs = list(counts["tutti"])
    for peer, found in counts.items():
        if list(found) != programs:
            raise SystemExit(f"{FOLDER}/{peer}.cpp: its programs are not those of tutti.cpp, in their order")
    rows = [f"| program | {' | '.join(PEERS.values())} |", "|---|---|---|---|"]
    rows += [f"| {program} | {' | '.join(str(counts[peer][program]) for peer in PEERS)} |" for program in programs]
    rows.append(f"| all | {' | '.join(str(sum(counts[peer].values())) for peer in PEERS)} |")
    return "\n".join(rows)


def made(root):
    """Of made.py."""
    if (root / FOLDER).exists():
        yield PAGE, BEGIN, f"\n\n{table(root)}\n\n", END, f"its table has not the lines of {FOLDER}"
