"""The grids of ./dev bench: cells in pieces, a summary of them, and with --docs the page of figures.

    ./dev bench [--docs]                   a grid of one host
    ./dev bench --full [FOLDER] [--docs]   everything; goes on with the files of the folder
    ./dev bench --docs FOLDER              the page of what the folder has; measures nothing
"""

import datetime
import os
import pathlib
import platform
import random
import sys
from typing import NamedTuple

from console import BUILD, ROOT, Failed, output_of, run, say

sys.path.append(str(ROOT / "tools"))

import bench_page  # noqa: E402
import bench_summary  # noqa: E402

PROGRAM = BUILD / "release" / "bin" / "tutti"
MPIS = "openmpi,impi"
PEERS = f"{MPIS},gloo"  # of one host
RUNS = 3
AGAIN = 15  # rounds
# Sizes of a buffer, and of a block for each rank.
GRID = "8,64,512,4K,32K,256K,2M,16M"
BLOCKS = "8,64,512,4K,32K,256K,2M"
STARTS = "8,64,256,1000"
NETWORKS = {"veth": [], "1Gbit,1ms": ["--network", "1Gbit,1ms"]}


class Piece(NamedTuple):
    """One call of `tutti bench`, of two minutes or less; its figures go to a file of this name."""
    name: str
    words: list


def piece(name, operations, sizes, ranks, *more, peers=PEERS):
    words = [*operations, "--sizes", sizes, "--ranks", ranks, "--against", peers, *more]
    return Piece(name, [str(word) for word in words])


def host_pieces(number):
    """All operations on one host, five minutes on two cores."""
    for ranks in (2, 4, 8):
        for name, operations, sizes in (("reduce", ["all_reduce", "reduce", "reduce_scatter"], BLOCKS),
                                        ("large", ["all_reduce", "reduce"], "16M"),
                                        ("one", ["broadcast", "send_recv", "barrier"], GRID),
                                        ("gather", ["all_gather", "gather"], BLOCKS),
                                        ("scatter", ["scatter", "all_to_all"], BLOCKS)):
            yield piece(f"{number}-host-{ranks}-{name}", operations, sizes, ranks)


def random_pieces(number, rng):
    """Nothing is tuned to the sizes of the grid."""
    sizes = ",".join(str(8 * int(2 ** rng.uniform(0, 18)) + 4) for _ in range(6))
    for ranks in (2, 4, 8):
        for name, operations in (("a", ["all_reduce", "broadcast", "reduce", "send_recv"]),
                                 ("b", ["reduce_scatter", "all_gather", "gather", "scatter", "all_to_all"])):
            yield piece(f"{number}-random-{ranks}-{name}", operations, sizes, ranks, "--rounds", 3)


def hog_pieces(number):
    for hogs in ("1", "1,bound", "2", "2,bound"):
        for ranks in (2, 4, 8):
            yield piece(f"{number}-hog-{hogs.replace(',', '-')}-{ranks}", ["all_reduce", "reduce_scatter", "all_to_all", "send_recv"],
                        "8,4K", ranks, "--hog", hogs)


def network_pieces(number):
    for network, words in NETWORKS.items():
        for hosts, ranks in ((2, 2), (4, 4), (2, 4), (2, 8)):
            if ranks > hosts and words:
                continue  # two levels are measured on the fast network
            for mode in ("sync", "loop"):
                for operation in ("all_reduce", "broadcast", "all_to_all", "send_recv", "send_window"):
                    sizes = "8,64,512,4K,32K,256K" if operation == "send_window" else BLOCKS if operation == "all_to_all" else GRID
                    yield piece(f"{number}-hosts-{network.replace(',', '-')}-{hosts}-{ranks}-{mode}-{operation}", [operation], sizes,
                                ranks, "--hosts", hosts, "--mode", mode, "--rounds", 3, *words, peers=MPIS)


def pieces_of_a_run(number, rng=random):
    yield from host_pieces(number)
    yield from network_pieces(number)
    yield from random_pieces(number, rng)
    yield from hog_pieces(number)


def full_pieces():
    rng = random.Random()
    for number in range(1, RUNS + 1):
        yield from pieces_of_a_run(number, rng)


def again_pieces(figures):
    """The cells that are behind."""
    together = {}
    for cell in figures.above(figures.measured):
        together.setdefault(cell._replace(bytes=0), []).append(cell.bytes)
    for cell, sizes in together.items():
        words = ["--rounds", AGAIN, "--mode", cell.mode]
        if cell.setting.hosts > 1:
            words += ["--hosts", cell.setting.hosts, *NETWORKS[cell.setting.network]]
        if cell.setting.hogs:
            words += ["--hog", cell.setting.hogs]
        if sizes == [0]:
            sizes = [8]  # a barrier has none, and the command wants one
        name = f"again-{cell.setting}-{cell.mode}-{cell.operation}-{cell.ranks}".replace(", ", "-").replace(",", "-").replace(" ", "-")
        yield piece(name, [cell.operation], ",".join(map(str, sorted(sizes))), cell.ranks, *words, peers=MPIS)


def measure(pieces, folder):
    """Measures those whose files are not there. The names of those that were not measured, and whether it goes on."""
    missing = [one for one in pieces if not (folder / f"{one.name}.json").exists()]
    for count, one in enumerate(missing):
        say(f"{one.name} ({count + 1} of {len(missing)})")
        file = folder / f"{one.name}.json"
        part = folder / f"{one.name}.part"
        try:
            if run(PROGRAM, "bench", *one.words, "--json", part):
                part.rename(file)
        except KeyboardInterrupt:
            return [late.name for late in missing[count:]], False
    return [one.name for one in missing if not (folder / f"{one.name}.json").exists()], True


class Grid(NamedTuple):
    """The grid that the arguments of ./dev bench ask for, if they ask for one."""
    full: bool
    docs: bool
    folder: pathlib.Path | None

    @property
    def measures(self):
        return self.full or self.folder is None


def grid_of(words):
    """None if these are arguments of `tutti bench`."""
    if words and not {"--full", "--docs"} & set(words):
        return None
    folders = [word for word in words if word not in ("--full", "--docs")]
    grid = Grid("--full" in words, "--docs" in words, pathlib.Path(folders[0]) if folders else None)
    if len(folders) > 1 or any(word.startswith("-") for word in folders):
        raise Failed(f"bench: {' '.join(folders)}: --full and --docs take one folder, and no other options")
    if not grid.measures and not grid.folder.is_dir():
        raise Failed(f"bench --docs: no such folder: {grid.folder}")
    return grid


def measure_grid(grid):
    """True if all was measured."""
    if grid.full:
        folder = grid.folder or BUILD / "bench" / "full"
        complete = full(folder)
    elif grid.measures:
        folder = BUILD / "bench" / "quick"
        complete = quick(folder)
    else:
        folder, complete = grid.folder, True
    if grid.docs:
        write_page(folder)
    return complete


def write_page(folder):
    if not (folder / "machine.txt").exists():
        note_machine(folder)
        print(f"{folder} does not say where it was measured; machine.txt now names this machine and the date of the files")
    try:
        bench_page.write(folder, ROOT, [one.name.partition("-")[2] for one in pieces_of_a_run(1)])
    except (ValueError, KeyError) as error:
        raise Failed(f"bench --docs: {error}") from error
    say(f"{bench_page.PAGE} and {bench_page.PICTURES} have the figures of {folder}")


def note_machine(folder):
    """Where and when the files of the folder were measured, unless that stands there."""
    file = folder / "machine.txt"
    if file.exists():
        return
    times = [one.stat().st_mtime for one in folder.glob("*.json")]
    date = datetime.date.fromtimestamp(max(times)) if times else datetime.date.today()
    virtual = " (virtual)" if "hypervisor" in cpu_field("flags") else ""
    release = platform.release().partition("-")[0]
    file.write_text(f"{cpu_field('model name') or platform.machine()}{virtual}, {os.cpu_count()} CPUs, Linux {release}, {date}\n",
                    encoding="utf-8")


def cpu_field(name):
    """The value of that name for the first CPU; empty if the kernel tells none."""
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def machine():
    commit = (output_of("git", "describe", "--always", "--dirty") or "unknown").strip()
    return f"{cpu_field('model name') or platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}, commit {commit}"


def quick(folder):
    """True if all was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_file():
            old.unlink()
    note_machine(folder)
    unmeasured, _ = measure(list(host_pieces("quick")), folder)
    return tell(folder, unmeasured)


def start(folder):
    """Measures how long jobs take to start, unless the folder has it. True if it has it then."""
    file = folder / "start.txt"
    if not file.exists():
        say("start")
        text = output_of(PROGRAM, "bench", "start", "--ranks", STARTS)
        if text is None:
            return False
        file.write_text(text, encoding="utf-8")
    print(file.read_text(encoding="utf-8"))
    return True


def full(folder):
    """Goes on where it was interrupted, if the folder is that of before. True if all was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    note_machine(folder)
    unmeasured, goes_on = measure(list(full_pieces()), folder)
    if goes_on:
        late, goes_on = measure(list(again_pieces(bench_summary.read(folder.glob("[0-9]*.json")))), folder)
        unmeasured += late
    else:
        unmeasured.append("again: cells above the limit in 15 rounds")
    if not goes_on or not start(folder):
        unmeasured.append("start")
    return tell(folder, unmeasured)


def tell(folder, unmeasured):
    say(f"summary of {folder}")
    print(machine())
    print("\n".join(bench_summary.summary(bench_summary.read(sorted(folder.glob("*.json"))))))
    if unmeasured:
        print("\nnot measured: " + ", ".join(unmeasured))
    sys.stdout.flush()
    return not unmeasured
