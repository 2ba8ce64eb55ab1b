#!/usr/bin/env python3
"""The pictures of the pages, docs/pictures/*.svg: those of collectives by `tutti explain`, the others by this script.

    pictures.py --tutti PROGRAM            tells which pictures differ from what is drawn now
    pictures.py --tutti PROGRAM --write    writes them
    pictures.py ...                        the same without the pictures of collectives, which need the program

made.py checks the pictures that need no program, and ctest `pictures_test` all.
"""

import argparse
import os
import pathlib
import subprocess
import sys
from html import escape

FOLDER = "docs/pictures"
WHY = "is not the picture that tools/pictures.py draws"

# Each collective on 4 ranks, each on a host of its own, so that all that it moves are messages.
OPERATIONS = ["barrier", "broadcast", "all_reduce", "reduce", "all_gather", "gather", "scatter", "reduce_scatter",
              "all_to_all", "scan", "exclusive_scan"]
APART = ["--ranks", "4", "--hosts", "4", "--bytes", "48K"]
COLLECTIVES = {name: [name, *APART] for name in OPERATIONS} | {
    "all_reduce-shared-memory": ["all_reduce", "--ranks", "4", "--bytes", "256K"],
    "all_reduce-two-hosts": ["all_reduce", "--ranks", "4", "--hosts", "2", "--bytes", "256K"],
}

STYLE = """
svg { --ink: #1c2024; --soft: #59636e; --grid: #c9d0d7; --paper: #ffffff; --shade: #f3f5f8; --one: #1f6fb4; --two: #c2410c;
  --bad: #b91c1c; --good: #15803d; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6e9ec; --soft: #a7b1bb; --grid: #434c55; --paper: #16191d; --shade: #1e2329; --one: #6db3f2;
    --two: #fb923c; --bad: #f87171; --good: #4ade80; }
}
text { font: 13px system-ui, sans-serif; fill: var(--ink); }
.soft { fill: var(--soft); }
.bold { font-weight: 600; }
.mono { font: 12px ui-monospace, monospace; }
.mid { text-anchor: middle; }
.end { text-anchor: end; }
.paper { fill: var(--paper); }
.box { fill: var(--shade); stroke: var(--grid); stroke-width: 1.5; }
.cell { fill: var(--paper); stroke: var(--ink); stroke-width: 1.3; }
.line { stroke: var(--c, var(--soft)); stroke-width: 1.6; fill: none; }
.thin { stroke: var(--grid); stroke-width: 1.5; }
.dash { stroke-dasharray: 6 3; }
.head { fill: var(--c, var(--soft)); }
.one { --c: var(--one); }
.two { --c: var(--two); }
.bad { --c: var(--bad); }
.good { --c: var(--good); }
.ink { fill: var(--c); }
"""


class Svg:
    """A drawing that grows by texts, boxes and arrows."""

    def __init__(self, title, width, height):
        self.parts = [f"<svg xmlns='http://www.w3.org/2000/svg' role='img' width='{width}' height='{height}' "
                      f"viewBox='0 0 {width} {height}'>\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n"
                      f"<rect class='paper' width='{width}' height='{height}'/>\n"]

    def text(self, x, y, text, kind=""):
        self.parts.append(f"<text class='{kind}' x='{x}' y='{y}'>{escape(text)}</text>\n")

    def lines(self, x, y, texts, kind="", pitch=18):
        for at, text in enumerate(texts):
            self.text(x, y + at * pitch, text, kind)

    def box(self, x, y, width, height, kind="box", radius=7):
        self.parts.append(f"<rect class='{kind}' x='{x}' y='{y}' width='{width}' height='{height}' rx='{radius}'/>\n")

    def line(self, x, y, to_x, to_y, kind="line"):
        self.parts.append(f"<path class='{kind}' d='M{x} {y}L{to_x} {to_y}'/>\n")

    def arrow(self, x, y, to_x, to_y, kind=""):
        """Along an axis, or falling to either side."""
        length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5
        along = ((to_x - x) / length, (to_y - y) / length)
        base = (to_x - 9 * along[0], to_y - 9 * along[1])
        side = (-4.5 * along[1], 4.5 * along[0])
        self.line(x, y, round(base[0], 1), round(base[1], 1), f"line {kind}")
        corners = [(to_x, to_y), (base[0] + side[0], base[1] + side[1]), (base[0] - side[0], base[1] - side[1])]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in corners)
        self.parts.append(f"<path class='head {kind}' d='M{path}z'/>\n")

    def dot(self, x, y, kind=""):
        self.parts.append(f"<circle class='head {kind}' cx='{x}' cy='{y}' r='4'/>\n")

    def take(self):
        return "".join([*self.parts, "</svg>\n"])


def arrival_line():
    """docs/design/shared-memory.md: lines, publishing. src/transport/shm/words.hpp: publish_line, has_come."""
    svg = Svg("Two ranks meet in one cache line each", 860, 456)
    svg.text(20, 28, "Two ranks meet in one cache line each", "bold")
    svg.text(20, 48, "Operation n is a small all_reduce. A rank writes its own line, which no other rank writes, and reads"
             " the other's.", "soft")
    for rank, x, kind in ((0, 20, "one"), (1, 450, "two")):
        svg.box(x, 66, 390, 126)
        svg.text(x + 16, 90, f"line n mod 64 of rank {rank}: 64 bytes", "bold")
        svg.box(x + 16, 104, 82, 46, "cell", 3)
        svg.box(x + 98, 104, 94, 46, "cell", 3)
        svg.box(x + 192, 104, 184, 46, "cell", 3)
        svg.lines(x + 57, 123, ["epoch", "8 bytes"], "mid")
        svg.lines(x + 145, 123, ["fingerprint", "8 bytes"], "mid")
        svg.lines(x + 284, 123, ["data, or where they lie", "48 bytes"], "mid")
        svg.text(x + 57, 174, "n: it is there", f"mid ink {kind}")
        svg.text(x + 145, 174, "of the call", "mid soft")
        svg.text(x + 284, 174, "up to 12 float32, whole", "mid soft")
    for rank, x in ((0, 276), (1, 584)):
        svg.box(x - 60, 212, 120, 28)
        svg.text(x, 231, f"rank {rank}", "mid bold")
        svg.line(x, 240, x, 420, "thin")
    for x, kind, place, shift in ((276, "one", "end", -14), (584, "two", "", 14)):
        for y in (264, 288, 340, 386, 408):
            svg.dot(x, y, kind)
        svg.text(x + shift, 268, "1  writes data and fingerprint", place)
        svg.text(x + shift, 292, "2  stores epoch = n (release)", place)
        svg.lines(x + shift, 344, ["3  loads epoch (acquire): it is n,", "so the whole line is there"], place)
        svg.text(x + shift, 390, "4  compares the fingerprints", place)
        svg.text(x + shift, 412, "5  adds both inputs, rank 0's first", place)
    svg.arrow(280, 290, 578, 338, "one")
    svg.arrow(580, 290, 282, 338, "two")
    svg.text(430, 284, "one cache line", "mid soft")
    svg.text(430, 358, "each way", "mid soft")
    svg.text(430, 444, "No message, no lock, and no fence after the store: a reader that goes to sleep pays for the fence.",
             "mid soft")
    return svg.take()


def life_of_an_operation():
    """ARCHITECTURE.md: one call, end to end; docs/design/threads.md."""
    svg = Svg("The life of an operation", 960, 560)
    svg.text(20, 28, "The life of an operation", "bold")
    svg.text(20, 48, "A call goes down, an outcome comes up.", "soft")
    rows = [
        (70, "call", "ProcessGroup", ["checks the arguments, throws before anything is sent,", "makes a Collective and a Work"]),
        (142, "submit", "Backend, Driver", ["takes the driver lock: one thread at a time runs the", "engine of a rank"]),
        (214, "plan", "Engine: PlanCache", ["finds the bound schedule by the signature of the call;", "for a new one: selects the algorithm, builds, binds"]),
        (286, "begin", "Engine: OperationRunner", ["numbers and fingerprints the call, which waits in a", "queue while too many of its group are under way"]),
        (358, "run", "Engine: Interpreter", ["runs the steps as far as they go: publish, await, copy,", "reduce, send, recv. It never blocks"]),
    ]
    for y, word, name, texts in rows:
        svg.box(96, y, 610, 58)
        svg.text(82, y + 34, word, "end bold ink one")
        svg.text(112, y + 34, name, "bold")
        svg.lines(316, y + 25, texts, "soft")
    for y in (128, 200, 272, 344):
        svg.arrow(140, y, 140, y + 14, "one")
    svg.box(96, 452, 295, 62)
    svg.text(243, 476, "shared memory", "mid bold")
    svg.text(243, 498, "lines, counters, staging: this host", "mid soft")
    svg.box(411, 452, 295, 62)
    svg.text(558, 476, "Transport: rings, TCP", "mid bold")
    svg.text(558, 498, "frames to and from any rank", "mid soft")
    for x in (243, 558):
        svg.arrow(x - 8, 416, x - 8, 450, "one")
        svg.arrow(x + 8, 452, x + 8, 418, "good")
    svg.dot(706, 387, "good")
    svg.line(706, 387, 800, 387, "line good")
    svg.arrow(800, 387, 800, 130, "good")
    svg.box(742, 70, 190, 58)
    svg.text(837, 94, "work.wait()", "mid bold")
    svg.text(837, 114, "returns, or throws", "mid soft")
    svg.text(814, 240, "done", "bold ink good")
    svg.lines(814, 260, ["the outcome,", "then callbacks"], "soft")
    svg.text(722, 410, "the last step has ended", "ink good")
    svg.text(20, 544, "A thread that waits drives this itself: it spins or yields, then sleeps. The progress thread drives"
             " what no thread waits for.", "soft")
    return svg.take()


def after_a_kill():
    """docs/reference/errors.md: peer_lost; src/backend/native/driver.cpp: look_around; src/engine/lost_ranks.cpp."""
    svg = Svg("After a kill", 980, 560)
    svg.text(20, 28, "After a kill", "bold")
    svg.text(20, 48, "Ranks 0, 1 and 2 share a host, rank 3 is on another one. All wait in an all_reduce.", "soft")
    columns = [(190, "rank 2", "is killed", "bad"), (400, "rank 1", "looks first", "one"),
               (630, "rank 0", "same host", "two"), (850, "rank 3", "other host", "two")]
    for x, name, what, kind in columns:
        svg.box(x - 70, 64, 140, 44)
        svg.text(x, 82, name, "mid bold")
        svg.text(x, 100, what, f"mid ink {kind}")
        svg.line(x, 108, x, 154 if name == "rank 2" else 462, "thin")
    svg.text(20, 159, "0 ms", "bold")
    svg.line(180, 144, 200, 164, "line bad")
    svg.line(180, 164, 200, 144, "line bad")
    svg.arrow(206, 154, 842, 154, "bad")
    svg.text(520, 144, "TCP: the connection ends, and no leave frame came", "mid ink bad")
    svg.dot(850, 154, "bad")
    svg.lines(862, 174, ["milliseconds:", "peer_lost. It tells", "the others, too;", "the first cause", "counts"], "soft")
    svg.line(190, 168, 190, 276, "line dash bad")
    svg.lines(202, 186, ["SIGKILL: the kernel ends the", "process. Its pidfd is readable,", "its pipe hangs up, and its",
                         "sockets close"], "soft")
    svg.text(20, 281, "up to 20 ms", "bold")
    svg.arrow(190, 276, 392, 276, "bad")
    svg.text(291, 295, "pidfd and pipe of rank 2", "mid ink bad")
    svg.dot(400, 276, "one")
    svg.lines(412, 270, ["looks every 20 ms at all", "processes of its host,", "by one system call"], "soft")
    svg.dot(400, 334, "one")
    svg.lines(412, 338, ["rank 2 has not left,", "so it died: peer_lost"], "soft")
    svg.text(20, 385, "at once", "bold")
    svg.arrow(400, 380, 622, 380, "one")
    svg.text(511, 397, "break word, note, wake", "mid ink one")
    svg.dot(630, 380, "two")
    svg.lines(642, 362, ["wakes, finds its", "break word"], "soft")
    svg.arrow(400, 430, 842, 430, "one")
    svg.text(518, 448, "abort frame with the cause", "mid ink one")
    svg.dot(850, 430, "two")
    svg.text(20, 488, "then", "bold")
    svg.box(110, 464, 850, 72)
    svg.text(126, 486, "Every survivor: each operation of the group ends with NetworkError, code peer_lost, culprit rank 2",
             "bold")
    svg.lines(126, 508, ["group 'world', operation 12 all_reduce(SUM, float32 x 1000): lost rank 2 on node-1, pid 503: its",
                         "process died. Look at that rank's output for the cause; the group is broken, ..."], "mono", 17)
    svg.text(20, 552, "In a wait of more than a second a rank looks every 100 ms.", "soft")
    return svg.take()


DRAWN = {"arrival-line": arrival_line, "life-of-an-operation": life_of_an_operation, "after-a-kill": after_a_kill}


def of_collective(program, arguments):
    # Not the settings of the one who calls; and the same CPUs on every machine.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    done = subprocess.run([program, "explain", *arguments, "--html", "-"], stdout=subprocess.PIPE, encoding="utf-8",
                          env=environment | {"TUTTI_CPUS": "8"}, check=True)
    begin, end = done.stdout.index("<svg"), done.stdout.index("</svg>") + len("</svg>\n")
    return done.stdout[begin:end]


def made(root):
    """For made.py."""
    for name, draw in DRAWN.items() if (root / FOLDER).exists() else ():
        yield f"{FOLDER}/{name}.svg", None, draw(), None, WHY


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tutti", help="the program tutti")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    wanted = {name: text for name, _, text, _, _ in made(args.root)}
    if args.tutti:
        for name, arguments in COLLECTIVES.items():
            wanted[f"{FOLDER}/{name}.svg"] = of_collective(args.tutti, arguments)
    if args.write:
        (args.root / FOLDER).mkdir(exist_ok=True)
        for name, text in wanted.items():
            (args.root / name).write_text(text, encoding="utf-8")
    there = {f"{FOLDER}/{file.name}" for file in (args.root / FOLDER).glob("*.svg")}
    found = [f"{name} {WHY}; run: tools/pictures.py --tutti PROGRAM --write" for name, text in wanted.items()
             if name not in there or (args.root / name).read_text(encoding="utf-8") != text]
    if args.tutti:
        found += [f"{name}: no picture of tools/pictures.py" for name in sorted(there - set(wanted))]
    print("\n".join([*found, f"{len(found)} pictures that must be drawn"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
