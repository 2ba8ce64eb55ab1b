"""The programs and the lines of docs/how-to/mpi4py.md, by a real mpirun."""

import os
import pathlib
import re
import sys

import pytest

import stacks

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/how-to/mpi4py.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LINES = re.findall(r"^\| `(.*comm\..*|.*\..*)` \| `(.*)` \|$", PAGE, re.MULTILINE)

# Each line of the table, on the same values: after it both sides must have the same.
TABLE = """
from mpi4py import MPI
import numpy as np
import tutti.distributed as dist

dist.init_process_group()
comm = MPI.COMM_WORLD
n, rank = comm.size, comm.rank
assert (n, rank) == (dist.get_world_size(), dist.get_rank())
common = {"MPI": MPI, "comm": comm, "dist": dist, "n": n, "rank": rank, "left": (rank - 1) % n, "right": (rank + 1) % n}
theirs, ours = dict(common), dict(common)
for mpi, tutti in LINES:
    for side in theirs, ours:
        side.update(x=np.arange(3.0) + rank, y=np.arange(3.0 * n) * (rank + 1), z=np.zeros(3 * n), objects=[None] * n)
    exec(mpi, theirs)
    exec(tutti, ours)
    if "Iallreduce" in mpi:
        theirs["request"].Wait()
        ours["work"].wait()
    for name in "xyz":
        size = min(len(theirs[name]), len(ours[name]))
        assert size >= 3 and (theirs[name][:size] == ours[name][:size]).all(), (mpi, tutti, theirs[name], ours[name])
    for name in ("objects", "before", "after", "done"):
        assert theirs.get(name) == ours.get(name), (mpi, tutti)
assert theirs["thing"] == ours["box"][0] == {"from": 1} and ours["counts"] == list(range(n))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("place", range(len(PROGRAMS) + 1), ids=lambda place: f"program {place}")
def test_page(open_mpi, script, place):
    assert len(PROGRAMS) == 3 and len(LINES) > 25
    text = PROGRAMS[place] if place < len(PROGRAMS) else f"LINES = {LINES!r}\n{TABLE}"
    environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    ended = stacks.run([open_mpi, "--oversubscribe", "-n", 4, sys.executable, script(text)], 100, env=environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
