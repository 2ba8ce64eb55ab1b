"""`./dev bench` without arguments, and `./dev bench --full`: grids of cells in pieces, and a summary of them."""

import os
import platform
import random
import sys
from typing import NamedTuple

from console import BUILD, ROOT, output_of, run, say

sys.path.append(str(ROOT / "tools"))

import bench_summary  # noqa: E402

PROGRAM = BUILD / "release" / "bin" / "tutti"
PEERS = "openmpi,impi"
RUNS = 3
AGAIN = 15  # rounds
# Sizes of a buffer, and of a block for each rank.
GRID = "8,64,512,4K,32K,256K,2M,16M"
BLOCKS = "8,64,512,4K,32K,256K,2M"
NETWORKS = {"veth": [], "1Gbit,1ms": ["--network", "1Gbit,1ms"]}


class Piece(NamedTuple):
    """One call of `tutti bench`, of two minutes or less; its figures go to a file of this name."""
    name: str
    words: list


def piece(name, operations, sizes, ranks, *more):
    words = [*operations, "--sizes", sizes, "--ranks", ranks, "--against", PEERS, *more]
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
                                ranks, "--hosts", hosts, "--mode", mode, "--rounds", 3, *words)


def full_pieces():
    rng = random.Random()
    for number in range(1, RUNS + 1):
        yield from host_pieces(number)
        yield from network_pieces(number)
        yield from random_pieces(number, rng)
        yield from hog_pieces(number)


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
        yield piece(name, [cell.operation], ",".join(map(str, sorted(sizes))), cell.ranks, *words)


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


def machine():
    models = [line.partition(":")[2].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")]
    commit = (output_of("git", "describe", "--always", "--dirty") or "unknown").strip()
    return f"{(models or [platform.machine()])[0]}, {os.cpu_count()} CPUs, Linux {platform.release()}, commit {commit}"


def quick():
    """True if all was measured."""
    folder = BUILD / "bench" / "quick"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    unmeasured, _ = measure(list(host_pieces("quick")), folder)
    return tell(folder, unmeasured)


def full(folder):
    """Goes on where it was interrupted, if the folder is that of before. True if all was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    unmeasured, goes_on = measure(list(full_pieces()), folder)
    if goes_on:
        late, goes_on = measure(list(again_pieces(bench_summary.read(folder.glob("[0-9]*.json")))), folder)
        unmeasured += late
    else:
        unmeasured.append("again: cells above the limit in 15 rounds")
    say("start")
    if not goes_on or not run(PROGRAM, "bench", "start", "--ranks", "8,64,256,1000"):
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
