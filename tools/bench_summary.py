#!/usr/bin/env python3
"""Summarises what `tutti bench --json` has written: how long ours takes beside the best peer, by groups of cells.

    bench_summary.py FILE...

A cell is an operation, a size and a number of ranks, in one mode on one network. Its ratio is the median of those of
its files, or of those with the most rounds where cells were measured again. A mean is the geometric one.
"""

import json
import math
import pathlib
import statistics
import sys
from typing import NamedTuple

LIMIT = 1.05  # above it a cell is behind
CALM = 0.10  # the part of the CPU time that other processes may take
FIRST = ["all_reduce", "broadcast", "reduce", "reduce_scatter"]
SECOND = ["barrier", "all_gather", "gather", "scatter"]


class Setting(NamedTuple):
    """What the cells of a table share."""
    hosts: int = 1
    network: str = ""
    hogs: str = ""

    def __str__(self):
        text = f"{self.hosts} hosts, {self.network}" if self.hosts > 1 else "shared memory"
        return text + (f", hogs: {self.hogs}" if self.hogs else "")


class Cell(NamedTuple):
    setting: Setting
    mode: str
    operation: str
    ranks: int
    bytes: int

    def __str__(self):
        mode = ", one at a time" if self.mode == "sync" else ""
        return f"{self.operation} {size_text(self.bytes)}, {self.ranks} ranks{mode}"


class Timed(NamedTuple):
    """One library's figures of a cell in one file."""
    us: float
    gb_s: float | None = None
    ratio: float | None = None  # of our time to its time


class Measured(NamedTuple):
    """One file's figures of a cell."""
    ratio: float
    us: float
    best: str
    rounds: int = 5
    others: float = 0
    state: str = "near"
    libraries: dict = {}  # Timed by name


def size_text(count):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if count >= unit and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)


def timed(point):
    """The figures of each library. A ratio is the median within rounds; a slow library has fewer of them."""
    found = {name: one for name, one in point["libraries"].items() if "us" in one}
    ours = found.get("tutti", {}).get("us_per_round", [])
    times = {}
    for name, one in found.items():
        ratios = [mine / theirs for mine, theirs in zip(ours, one.get("us_per_round", []))]
        times[name] = Timed(one["us"], one.get("algbw_gb_s"), statistics.median(ratios) if ratios else None)
    return times


def on_grid(cell):
    """Other sizes are random ones, drawn beside the grid."""
    return cell.bytes & (cell.bytes - 1) == 0


class Figures:
    """All cells of some files."""

    def __init__(self, documents):
        self.measured = {}
        self.versions = {}  # by library
        self.missing = set()  # texts: what has no figure, and why
        for document in documents:
            self.add(document)

    def add(self, document):
        setting = Setting(document.get("hosts", 1), document.get("network", ""), document.get("hogs", ""))
        for library in document["libraries"]:
            if "failure" in library:
                reason = library["failure"].partition("\n")[0]
                self.missing.add(f"{setting}: {library['library']}, {library['ranks']} ranks: {reason}")
            else:
                self.versions[library["library"]] = library.get("version", "")
        for point in document["points"]:
            cell = Cell(setting, document["mode"], point["operation"], point["ranks"], point["bytes"])
            for name, one in point["libraries"].items():
                if "failure" in one:
                    self.missing.add(f"{setting}: {cell}: {name}: {one['failure'].partition(chr(10))[0]}")
            ours = point["libraries"].get("tutti", {})
            if "ratio" not in point or "us" not in ours:
                self.missing.add(f"{setting}: {cell}: no ratio")
                continue
            self.measured.setdefault(cell, []).append(
                Measured(point["ratio"], ours["us"], point["best_peer"], document["rounds"], point["others_cpu"],
                         point["state"], timed(point)))

    def deciding(self, cell, files=None):
        """The files of the cell that count: those with the most rounds, and of these those of a calm machine if any."""
        files = files or self.measured[cell]
        most = max(one.rounds for one in files)
        files = [one for one in files if one.rounds == most]
        return [one for one in files if one.others <= CALM] or files

    def ratio(self, cell):
        return statistics.median(one.ratio for one in self.deciding(cell))

    def of_library(self, cell, library, field):
        """The median of that field of Timed over the files that count, of those that have it; None if none has it."""
        files = [one for one in self.measured[cell]
                 if library in one.libraries and getattr(one.libraries[library], field) is not None]
        if not files:
            return None
        return statistics.median(getattr(one.libraries[library], field) for one in self.deciding(cell, files))

    def cells(self, **chosen):
        """Those whose fields have these values."""
        return [cell for cell in self.measured if all(getattr(cell, name) == value for name, value in chosen.items())]

    def above(self, cells, limit=LIMIT):
        """The worst first."""
        behind = [cell for cell in cells if self.ratio(cell) > limit]
        return sorted(behind, key=self.ratio, reverse=True)

    def mean(self, cells):
        return math.exp(statistics.fmean(math.log(self.ratio(cell)) for cell in cells)) if cells else math.nan


def ideal_us(cell, bits_per_second, delay_us):
    """What an operation between hosts with a rank each takes if nothing but the links takes time: each byte with the
    headers of its frames, and the way of the first one."""
    payload, headers = 1448, 90  # TCP with time stamps in frames of 1,500 bytes; Ethernet's gap counts

    def wire(count):
        return (count + math.ceil(count / payload) * headers) * 8e6 / bits_per_second

    n, size = cell.ranks, cell.bytes
    if cell.operation == "send_recv":
        return 2 * (delay_us + wire(size))
    if cell.operation == "send_window":
        return 2 * delay_us + wire(64 * size)
    moved = {"all_reduce": 2 * (n - 1) * size / n, "broadcast": size, "all_to_all": (n - 1) * size}
    return delay_us + wire(moved[cell.operation]) if cell.operation in moved else math.nan


def link_of(network):
    """Bits per second and microseconds of "1Gbit,1ms"; None of a network without them."""
    rate, _, delay = network.partition(",")
    for unit, bits in (("Gbit", 1e9), ("Mbit", 1e6), ("Kbit", 1e3)):
        for ending, us in (("us", 1), ("ms", 1e3), ("s", 1e6)):
            if rate.endswith(unit) and delay.endswith(ending):
                try:
                    return float(rate.removesuffix(unit)) * bits, float(delay.removesuffix(ending)) * us
                except ValueError:
                    continue
    return None


def groups(cells):
    """The rows of the table of one host."""
    yield "all cells", cells
    for operation in FIRST + SECOND + ["all_to_all", "send_recv"]:
        yield operation, [cell for cell in cells if cell.operation == operation]
    yield ", ".join(FIRST), [cell for cell in cells if cell.operation in FIRST]
    yield ", ".join(SECOND), [cell for cell in cells if cell.operation in SECOND]
    yield "8 bytes, all operations", [cell for cell in cells if cell.bytes == 8]


def row(figures, name, cells):
    worst = max(cells, key=figures.ratio)
    return (f"{name:<46}{len(cells):>5}{figures.mean(cells):>7.2f}{len(figures.above(cells)):>7}"
            f"{figures.ratio(worst):>7.2f}  {worst}")


def host_tables(figures):
    """Of one host: back to back, grid and random sizes."""
    for setting in sorted({cell.setting for cell in figures.measured if cell.setting.hosts == 1}):
        cells = [cell for cell in figures.cells(setting=setting, mode="loop") if on_grid(cell)]
        if not cells:
            continue
        yield f"\n{str(setting):<46}{'cells':>5}{'mean':>7}{'>1.05':>7}{'worst':>7}"
        for name, chosen in groups(cells):
            if chosen and (not setting.hogs or chosen is cells or name in FIRST + SECOND + ["all_to_all", "send_recv"]):
                yield row(figures, name, chosen)
        random = [cell for cell in figures.cells(setting=setting, mode="loop") if not on_grid(cell)]
        if random:
            yield row(figures, "random sizes", random)


def network_tables(figures):
    """Between hosts: one at a time and back to back."""
    settings = sorted({(cell.setting, cell.ranks) for cell in figures.measured if cell.setting.hosts > 1})
    if settings:
        yield f"\n{'between hosts':<34}{'cells':>5}{'one at a time':>15}{'back to back':>14}{'>1.05':>7}{'worst':>7}"
    for setting, ranks in settings:
        cells = figures.cells(setting=setting, ranks=ranks)
        one, loop = (figures.mean([cell for cell in cells if cell.mode == mode]) for mode in ("sync", "loop"))
        worst = max(cells, key=figures.ratio)
        name = f"{setting}" + (f", {ranks} ranks" if ranks != setting.hosts else "")
        yield (f"{name:<34}{len(cells):>5}{one:>15.2f}{loop:>14.2f}{len(figures.above(cells)):>7}"
               f"{figures.ratio(worst):>7.2f}  {worst}")
        link = link_of(setting.network)
        if link and ranks == setting.hosts:
            yield from beyond_goal(figures, cells, link)


def beyond_goal(figures, cells, link):
    """The goal of a network with a rate and a delay, for calls one at a time."""
    alone = [cell for cell in cells if cell.mode == "sync" and not math.isnan(ideal_us(cell, *link))]
    late = []
    for cell in alone:
        us = statistics.median(one.us for one in figures.deciding(cell))
        goal = 1.05 * ideal_us(cell, *link) + 100
        if us > goal:
            late.append((us / goal, f"{cell.operation} {size_text(cell.bytes)} {us:.0f} us, goal {goal:.0f}"))
    yield f"    beyond 1.05 x (delay + bytes with headers) + 100 us: {len(late)} of {len(alone)} cells"
    for _, text in sorted(late, reverse=True)[:5]:
        yield f"        {text}"


def behind(figures, most=40):
    """The cells above the limit."""
    cells = figures.above(figures.measured)
    yield f"\ncells above {LIMIT}: {len(cells)} of {len(figures.measured)}"
    for cell in cells[:most]:
        files = figures.deciding(cell)
        us = statistics.median(one.us for one in files)
        best = statistics.mode(one.best for one in files)
        place = "" if cell.setting == Setting() else f"{cell.setting}: "
        rounds = len(files) * files[0].rounds
        yield f"  {figures.ratio(cell):5.2f}  {place}{cell}: {us:.2f} us, best {best}, {rounds} rounds"
    if len(cells) > most:
        yield f"  ... and {len(cells) - most} more"


def state_text(figures, cells=None):
    """How calm the machine was while these cells, or all, were measured."""
    files = [one for cell in (figures.measured if cells is None else cells) for one in figures.measured[cell]]
    busy = sum(one.others > CALM for one in files)
    states = {state: sum(one.state == state for one in files) for state in sorted({one.state for one in files})}
    return (f"other processes took {statistics.fmean(one.others for one in files):.0%} of the CPU time on average, above "
            f"{CALM:.0%} in {busy} of {len(files)} measurements; cores "
            + ", ".join(f"{name} in {count}" for name, count in states.items()))


def summary(figures):
    """The lines."""
    if figures.measured:
        yield from host_tables(figures)
        yield from network_tables(figures)
        yield from behind(figures)
        yield f"\nstate: {state_text(figures)}"
    if figures.missing:
        yield "\nwithout figures:"
        for text in sorted(figures.missing):
            yield f"  {text}"


def read(paths):
    return Figures([json.loads(pathlib.Path(path).read_text(encoding="utf-8")) for path in paths])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    print("\n".join(summary(read(sys.argv[1:]))))
