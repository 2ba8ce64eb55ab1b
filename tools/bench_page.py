"""Writes the generated parts of docs/reference/performance.md and its plots from a folder of a run of the bench.

The folder has the files of `tutti bench --json`, start.txt with the table of `tutti bench start`, and machine.txt with
one line: the machine and the date. Each question has a section with a table and a plot; a part that the folder does not
have is named in one line.
"""

import math
import pathlib
import re
import statistics
from typing import NamedTuple

import bench_plots
import bench_summary
from bench_plots import Dot, Plot
from bench_summary import CALM, LIMIT, Setting, on_grid, size_text

PAGE = pathlib.Path("docs/reference/performance.md")
PICTURES = pathlib.Path("docs/pictures/bench")
OPERATIONS = ["all_reduce", "broadcast", "reduce", "reduce_scatter", "all_gather", "gather", "scatter", "all_to_all",
              "scan", "exclusive_scan", "send_recv", "send_window", "barrier"]
OURS = "tutti"
NAMES = {"gloo": "Gloo", "openmpi": "Open MPI", "impi": "Intel MPI", OURS: "tutti"}
COLOURS = {"gloo": 0, "openmpi": 1, "impi": 2, OURS: 3}  # and shapes, in the order of the lanes
LEAST = 1 / 64  # of a plot's axis: Gloo's small calls take far longer, and the dots near 1 need the room
STAR = r"\*"
MISSING = 5  # of those without a figure that are named
HOST = Setting()
KINDS = {"host": "operations of one host", "hosts": "operations between hosts", "random": "random sizes",
         "hog": "ranks beside busy processes"}  # by the second word of a piece's name


class Run(NamedTuple):
    """All that a folder has."""
    figures: bench_summary.Figures
    machine: str
    starts: list  # of (ranks, median, least, most), in seconds
    names: set  # of its pieces


class Section(NamedTuple):
    title: str
    lines: list
    plot: Plot
    file: str


def read(folder):
    files = sorted(folder.glob("*.json"))
    start = folder / "start.txt"
    rows = [line.split() for line in start.read_text(encoding="utf-8").splitlines()] if start.exists() else []
    starts = [(int(row[0]), *map(float, row[1:])) for row in rows if len(row) == 4 and row[0].isdigit()]
    machine = (folder / "machine.txt").read_text(encoding="utf-8").strip()
    return Run(bench_summary.read(files), machine, starts, {file.stem for file in files})


def table(head, rows):
    rule = ["---"] * len(head)
    return ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]


def ratio_text(value):
    """Losses are bold."""
    if value is None or math.isnan(value):
        return ""
    text = f"{value:.2f}" if value >= 0.095 else f"{value:.1g}"
    return f"**{text}**" if value > LIMIT else text


def number(value):
    """Three digits, or all before the point."""
    if value is None:
        return ""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def bytes_text(count):
    text = size_text(count)
    return f"{text[:-1]} {text[-1]}iB" if text[-1] in "KM" else f"{text} B"


def ranks_text(ranks):
    return f"{ranks} ranks"


def listed(words):
    words = [str(word) for word in words]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def dot_size(count):
    """Of a message of that many bytes."""
    return 0 if count <= 512 else 1 if count <= 32 << 10 else 2


def version_text(library, text):
    number_of = re.search(r"\d+\.\d[\d.]*", text)
    return NAMES.get(library, library) + (f" {number_of.group()}" if number_of else "")


class Page:
    """The sections of a run."""

    def __init__(self, run):
        self.run = run
        self.figures = run.figures
        self.peers = [name for name in COLOURS if name in run.figures.versions and name != OURS]
        self.host = [cell for cell in self.figures.cells(setting=HOST, mode="loop") if on_grid(cell)]

    def versions(self, libraries):
        return ", ".join(version_text(name, self.figures.versions[name]) for name in libraries if name in self.figures.versions)

    def mean_text(self, cells, peer):
        """The geometric mean of the ratios to a peer, and of how many cells if some lack it."""
        ratios = [self.figures.of_library(cell, peer, "ratio") for cell in cells]
        logs = [math.log(ratio) for ratio in ratios if ratio]
        if not logs:
            return ""
        return ratio_text(math.exp(statistics.fmean(logs))) + (f" ({len(logs)} of {len(cells)} cells)" if len(logs) < len(cells) else "")

    def tallied(self, cells):
        """Three columns: the mean of the ratios to the best peer, the cells above the limit, the worst cell."""
        worst = max(cells, key=self.figures.ratio)
        parts = [worst.operation] if len({cell.operation for cell in cells}) > 1 else []
        parts += [bytes_text(worst.bytes)] if worst.bytes else []
        parts += [ranks_text(worst.ranks)] if len({cell.ranks for cell in cells}) > 1 else []
        where = f" ({', '.join(parts)})" if parts else ""
        return [ratio_text(self.figures.mean(cells)), f"{len(self.figures.above(cells))} of {len(cells)}",
                ratio_text(self.figures.ratio(worst)) + where]

    def plot(self, title, axis, dots, panels, **more):
        libraries = [*([] if more.get("ratio") else [OURS]), *self.peers]
        series = [(NAMES[name], COLOURS[name]) for name in libraries]
        drawn = {dot.series for dot in dots}
        shown = [OURS, *(name for name in self.peers if NAMES[name] in drawn)]
        caption = f"{self.run.machine}. {self.versions(shown)}."
        return Plot(title, axis, caption, dots, series, OPERATIONS, panels, **more)

    def ratio_plot(self, title, cells_of):
        """`cells_of`: the cells of each panel."""
        dots = []
        for panel, cells in cells_of.items():
            for cell in cells:
                for peer in self.peers:
                    ratio = self.figures.of_library(cell, peer, "ratio")
                    if ratio:
                        dots.append(Dot(panel, cell.operation, NAMES[peer], ratio, dot_size(cell.bytes)))
        return self.plot(title, "time of tutti / time of the peer; in the red area tutti is slower", dots, list(cells_of),
                         ratio=True, least=LEAST, sizes="a dot: one size; larger dot: larger message")

    def by_ranks(self, cells):
        """The cells of each number of ranks."""
        return {ranks_text(ranks): [cell for cell in cells if cell.ranks == ranks]
                for ranks in sorted({cell.ranks for cell in cells})}

    def operations(self):
        cells = self.host
        sizes = [cell.bytes for cell in cells if cell.bytes]
        rows = []
        for name in [*OPERATIONS, "all"]:
            chosen = [cell for cell in cells if name in (cell.operation, "all")]
            if chosen:
                rows.append([name, *(self.mean_text(chosen, peer) for peer in self.peers), *self.tallied(chosen)])
        lines = [f"The time of tutti divided by the time of the peer (*ratio*), as geometric means over "
                 f"{listed(sorted({cell.ranks for cell in cells}))} ranks and sizes from {bytes_text(min(sizes, default=0))} to "
                 f"{bytes_text(max(sizes, default=0))}. Below 1, tutti is faster. A *cell* is one operation, size and number of "
                 f"ranks; its *best peer* is the fastest one.", "",
                 *table(["operation", *(NAMES[peer] for peer in self.peers), "best peer", f"cells above {LIMIT}", "worst cell"], rows)]
        plot = self.ratio_plot("Every operation on one host, beside the peers", self.by_ranks(cells))
        plot = plot._replace(caption=f"{plot.caption} State: {bench_summary.state_text(self.figures, cells)}.")
        return Section("One host: every operation", lines, plot, "operations")

    def absolute(self, cells, field, title, text, axis, heading, file):
        """A table and a plot of times or rates: a row for each operation, a column for each library and number of ranks."""
        ranks = sorted({cell.ranks for cell in cells})
        shown = [ranks[0], ranks[-1]] if len(ranks) > 1 else ranks
        libraries = [OURS, *self.peers]
        rows, dots = [], []
        for name in OPERATIONS:
            own = {cell.ranks: cell for cell in cells if cell.operation == name}
            if not own:
                continue
            found = {(count, library): self.figures.of_library(cell, library, field)
                     for count, cell in own.items() for library in libraries}
            rows.append([name, *(number(found.get((count, library))) for count in shown for library in libraries)])
            dots += [Dot(ranks_text(count), name, NAMES[library], value, 2) for (count, library), value in found.items() if value]
        head = ["operation", *(f"{NAMES[library]}, {count}" for count in shown for library in libraries)]
        lines = [f"{text}, on {listed(shown)} ranks.", "", *table(head, rows)]
        if rows:
            yield Section(heading, lines, self.plot(title, axis, dots, [ranks_text(count) for count in ranks]), file)

    def latency(self):
        cells = [cell for cell in self.host if cell.bytes == 8 or cell.operation == "barrier"]
        return self.absolute(cells, "us", "Latency of 8 bytes", "Microseconds that a call of 8 bytes takes (`send_recv`: there "
                             "and back)", "microseconds; further left is faster", "One host: latency of 8 bytes", "latency")

    def bandwidth(self):
        largest = {}
        for cell in self.host:
            largest[cell.operation] = max(largest.get(cell.operation, 0), cell.bytes)
        cells = [cell for cell in self.host if cell.bytes == largest[cell.operation] > 0]
        sizes = sorted({cell.bytes for cell in cells}, reverse=True)
        groups = [f"{bytes_text(size)} ({', '.join(name for name in OPERATIONS if largest.get(name) == size)})" for size in sizes]
        text = ("GB/s (10^9 bytes; the [algorithm bandwidth](../../apps/bench/README.md#columns)) of the largest size: "
                + listed(groups))
        return self.absolute(cells, "gb_s", "Bandwidth of large messages", text, "GB/s; further right is faster",
                             "One host: bandwidth", "bandwidth")

    def hosts(self):
        cells = [cell for cell in self.figures.measured if cell.setting.hosts > 1]
        names = [name for name in OPERATIONS if any(cell.operation == name for cell in cells)]
        rows, panels = [], {}
        for setting, ranks in sorted({(cell.setting, cell.ranks) for cell in cells}):
            place = f"{setting}, {ranks_text(ranks)}" if ranks > setting.hosts else str(setting)
            panels[place] = [cell for cell in cells if (cell.setting, cell.ranks) == (setting, ranks)]
            for mode, text in (("sync", "one at a time"), ("loop", "back to back")):
                own = [cell for cell in panels[place] if cell.mode == mode]
                if own:
                    means = [self.figures.mean([cell for cell in own if cell.operation == name]) for name in names]
                    rows.append([f"{place}, {text}", *map(ratio_text, means), *self.tallied(own)])
        lines = ["Hosts are network namespaces of this one machine, so all ranks share its CPUs. *veth* is as fast as the kernel; "
                 "*1Gbit,1ms* is a simulated link. The ratios are those to the best peer over TCP, as geometric means over the "
                 "sizes. Calls run one at a time, or back to back. [`send_window`](../../apps/bench/README.md#how-a-figure-comes-about) "
                 "is 64 messages that are under way together.", "",
                 *table(["hosts", *names, "all", f"cells above {LIMIT}", "worst cell"], rows)]
        return Section("Between hosts", lines, self.ratio_plot("Between hosts (network namespaces)", panels), "hosts")

    def start(self):
        rows = [[str(ranks), *map(number, times)] for ranks, *times in self.run.starts]
        dots = [Dot("one host", ranks_text(ranks), NAMES[OURS], median, 2) for ranks, median, *_ in self.run.starts]
        lines = ["Seconds from the start of `tuttirun` to the end of its job, which runs one barrier of all ranks.", "",
                 *table(["ranks", "median", "least", "most"], rows)]
        plot = self.plot("Start and end of a job", "seconds (median)", dots, ["one host"])
        return Section("Start of many ranks", lines, plot._replace(rows=[dot.row for dot in dots]), "start")

    def disturbed(self):
        groups = {"random sizes": [cell for cell in self.figures.cells(setting=HOST, mode="loop") if not on_grid(cell)]}
        for setting in sorted({cell.setting for cell in self.figures.measured if cell.setting.hogs}):
            count, _, bound = setting.hogs.partition(",")
            name = f"{count} busy process{'es' if count != '1' else ''}{', bound' if bound else ''}"
            groups[name] = self.figures.cells(setting=setting)
        groups = {name: cells for name, cells in groups.items() if cells}
        ranks = sorted({cell.ranks for cells in groups.values() for cell in cells})
        rows = [[name, *(ratio_text(self.figures.mean([cell for cell in cells if cell.ranks == count])) for count in ranks),
                 *self.tallied(cells)] for name, cells in groups.items()]
        lines = ["The ratios are those to the best peer, as geometric means by the number of ranks. Sizes are drawn at random, or "
                 "other processes use a CPU each (*bound*: each is bound to its own).", "",
                 *table(["case", *map(ranks_text, ranks), "all", f"cells above {LIMIT}", "worst cell"], rows)]
        plot = self.ratio_plot("Random sizes and busy processes", groups)
        return Section("Random sizes and busy processes", lines, plot, "disturbed")

    def sections(self):
        if self.host:
            yield self.operations()
            yield from self.latency()
            yield from self.bandwidth()
        if any(cell.setting.hosts > 1 for cell in self.figures.measured):
            yield self.hosts()
        if self.run.starts:
            yield self.start()
        if any(cell.setting.hogs or not on_grid(cell) for cell in self.figures.measured):
            yield self.disturbed()

    def unmeasured(self, expected):
        """The pieces that the run does not have. `expected`: the names of the pieces of a whole run, without the run's number."""
        have = {name.partition("-")[2] for name in self.run.names}
        for kind, text in KINDS.items():
            pieces = {name for name in expected if name.partition("-")[0] == kind}
            late = pieces - have
            if late:
                yield text if late == pieces else f"{text}: {len(late)} of {len(pieces)} pieces"
        if not self.run.starts:
            yield "start of many ranks"

    def results(self, expected):
        """The lines of the first part."""
        yield f"{self.run.machine}. {self.versions([OURS, *self.peers])}. State: {bench_summary.state_text(self.figures)}."
        late = list(self.unmeasured(expected))
        if late:
            yield f"\nNot measured in this run: {'; '.join(late)}."
        missing = sorted(self.figures.missing)
        if missing:
            more = f"; and {len(missing) - MISSING} more" if len(missing) > MISSING else ""
            yield f"\nWithout a figure: {'; '.join(missing[:MISSING])}{more}."
        for section in self.sections():
            yield f"\n## {section.title}\n"
            yield from section.lines
            yield f"\n![{section.plot.title}](../pictures/bench/{section.file}.svg)"

    def gaps(self):
        """The lines of the second part: all cells above the limit."""
        cells = sorted(self.figures.above(self.figures.measured), key=lambda cell: (cell.setting, cell.mode, cell.ranks,
                                                                                    OPERATIONS.index(cell.operation), cell.bytes))
        busy = {cell for cell in cells if min(one.others for one in self.figures.deciding(cell)) > CALM}
        stars = f" In {len(busy)} of them, with a star, other processes took more than {CALM:.0%} of the CPU time." if busy else ""
        yield f"Cells above {LIMIT}: {len(cells)} of {len(self.figures.measured)}.{stars}\n"
        places = {}
        for cell in cells:
            place = str(cell.setting).replace("shared memory", "one host") + f", {ranks_text(cell.ranks)}"
            place += ", one at a time" if cell.mode == "sync" else ""
            size = f"{bytes_text(cell.bytes)} " if cell.bytes else ""
            found = places.setdefault(place, {}).setdefault(cell.operation, [])
            found.append(f"{size}{self.figures.ratio(cell):.2f}{STAR if cell in busy else ''}")
        rows = [[place, "; ".join(f"{name} {', '.join(found)}" for name, found in operations.items())]
                for place, operations in places.items()]
        yield from table(["where", "sizes and ratios to the best peer"], rows)


def wrapped(lines):
    """A page's lines have at most 120 columns; tables stay."""
    for line in "\n".join(lines).split("\n"):
        if line.startswith(("|", "!")):
            yield line
        else:
            yield from bench_plots.wrapped(line, 120)


def replaced(text, part, lines):
    """The page with these lines between the two comments of the part."""
    begin, end = f"<!-- {part}: written by ./dev bench --docs -->\n", f"<!-- end of {part} -->\n"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{PAGE} has no lines between '{begin.strip()}' and '{end.strip()}'")
    return before + begin + "\n" + "\n".join(wrapped(lines)) + "\n\n" + end + after


def write(folder, root, expected):
    """Writes the page's parts and the plots. Pictures of parts that this run does not have go away."""
    page = Page(read(folder))
    if not page.figures.measured:
        raise ValueError(f"no figures in {folder}")
    if not page.peers:
        raise ValueError(f"no figures of Gloo, Open MPI or Intel MPI in {folder}")
    text = (root / PAGE).read_text(encoding="utf-8")
    text = replaced(replaced(text, "results", page.results(expected)), "gaps", page.gaps())
    pictures = root / PICTURES
    pictures.mkdir(parents=True, exist_ok=True)
    drawn = {pictures / f"{section.file}.svg": bench_plots.svg(section.plot) for section in page.sections()}
    for old in set(pictures.glob("*.svg")) - set(drawn):
        old.unlink()
    for file, picture in drawn.items():
        file.write_text(picture, encoding="utf-8")
    (root / PAGE).write_text(text, encoding="utf-8")
