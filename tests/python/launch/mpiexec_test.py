"""Ranks that MPICH's and Open MPI's launchers start, with nothing but their variables, behind wrappers."""

import os
import shutil
import sys

import pytest

import ranks
import stacks

LAUNCHERS = {"mpich": ["mpiexec.mpich"], "openmpi": ["mpiexec.openmpi", "--oversubscribe"]}
OF_A_RANK = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TUTTI_JOB")
# Each rank tells which ranks of which job it has met.
PROGRAM = """
import array, os, pathlib, sys
import tutti.distributed as dist
dist.init_process_group()
rank, size, job = dist.get_rank(), dist.get_world_size(), int(sys.argv[2])
met = array.array("q", [0] * size)
dist.all_gather_single(met, array.array("q", [job]))
dist.destroy_process_group()
pathlib.Path(sys.argv[1], f"{job}.{rank}").write_text(" ".join(map(str, met)))
"""
WRAPPER = ["sh", "-c", 'sh -c "$* ; exit \\$?" sh "$@"; exit $?', "sh"]


def environment():
    given = {name: value for name, value in os.environ.items() if name not in OF_A_RANK}
    return given | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TUTTI_TIMEOUT": "30"}


def cases():
    """One job behind shells and two bare ones take a part of what two behind shells take."""
    all_of_them = [(name, wrapped, jobs) for name in LAUNCHERS for wrapped in (True, False) for jobs in (2, 1)]
    return [(name, True, 2) for name in LAUNCHERS] if not ranks.LONG else all_of_them


@pytest.mark.parametrize(("name", "wrapped", "jobs"), cases())
def test_ranks_of_a_job_meet_and_no_others(name, wrapped, jobs, script, tmp_path):
    launcher = LAUNCHERS[name]
    if shutil.which(launcher[0]) is None:
        if name == "mpich":
            pytest.skip("there is no mpiexec of MPICH here")
        pytest.skip("there is no mpirun of Open MPI here")
    program = [sys.executable, str(script(PROGRAM)), str(tmp_path)]
    lines = [" ".join([*launcher, "-n", "2", *(f"'{word}'" for word in [*(WRAPPER if wrapped else []), *program]), str(job)])
             for job in range(jobs)]
    # From one shell at once.
    text = " & ".join(lines) + " & " + " ".join(f"wait %{job + 1} || exit;" for job in range(jobs))
    stacks.output(["sh", "-mc", text], 50, env=environment())
    for job in range(jobs):
        for rank in range(2):
            assert (tmp_path / f"{job}.{rank}").read_text() == f"{job} {job}"


def test_variables_set_by_hand_are_an_error_at_once(script, tmp_path):
    """No launcher is there, so the rank could only wait for its timeout."""
    variables = environment() | {"PMI_RANK": "0", "PMI_SIZE": "2"}
    done = stacks.run([sys.executable, script(PROGRAM), tmp_path, "0"], 20, env=variables)
    assert done.returncode == 1
    assert "set MASTER_ADDR and MASTER_PORT to the address of the host of rank 0" in done.stderr
