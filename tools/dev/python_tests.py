"""The tests of the Python package: on the library of the preset dev, or on an installed wheel."""

import os
import sys

from building import build, configure
from console import BUILD, JOBS, ROOT, run, say

VENV = BUILD / "venv"
PYTHON = VENV / "bin" / "python"
LIMIT = 1200  # seconds, after which the stacks are shown and the tests are stopped
# What the tests start besides the module.
TARGETS = ["_tutti", "tuttirun", "tutti_cli", "tutti_bench_tutti", "tutti_backend_mpi", "tutti_backend_nccl"]


def configure_module(preset="dev"):
    return configure(preset, "-DTUTTI_PYTHON=ON", f"-DPython_EXECUTABLE={PYTHON}")


def build_module(preset="dev"):
    return build(preset, TARGETS)


def run_pytest(name, results, *arguments, paths=(), workers=JOBS + 1, **environment):
    """The tests wait most of the time, so they have more workers than cores; a worker takes whole files, in the order
    that tests/python/conftest.py gives them."""
    file = results.new_file(name)
    places = [str(path) for path in (*paths, ROOT / "tests" / "python")]
    say(f"pytest: {name}")
    well = run(sys.executable, ROOT / "tools" / "run_with_stacks.py", "--timeout", LIMIT, "--",
               VENV / "bin" / "pytest", "-q", f"-n{workers}", "--dist", "loadfile", "--no-loadscope-reorder",
               "--durations=20", "-o", "faulthandler_timeout=60", "--junitxml", file, *arguments,
               env=os.environ | {"PYTHONPATH": os.pathsep.join(places)} | environment)
    results.add(file, well)


def run_on_build(results, *arguments, preset="dev", name="python"):
    """On the module of a build folder, without a wheel."""
    run_pytest(name, results, "-m", "not full", "--ignore", "tests/python/torch_backend", *(arguments or ["tests/python"]),
               paths=[BUILD / preset / "python"], PATH=f"{BUILD / preset / 'bin'}{os.pathsep}{os.environ['PATH']}")


def make_wheel():
    """The compiler is that of the presets; Debian's Python would name another one, and ccache tells them apart."""
    say("building the wheel")
    for old in (BUILD / "wheels").glob("tutti-*.whl"):
        old.unlink()
    return run(VENV / "bin" / "pip", "wheel", ".", "--disable-pip-version-check", "--no-input", "-v", "--no-build-isolation",
               "--no-deps", "-w", BUILD / "wheels", "--config-settings=cmake.define.TUTTI_WERROR=ON", log=BUILD / "python.log",
               env=os.environ | {"CXX": os.environ.get("CXX", "c++")})


def install_wheel(name="tutti"):
    return run(VENV / "bin" / "pip", "install", "--disable-pip-version-check", "--no-input", "-q", "--no-index", "--no-deps",
               "--force-reinstall", *(BUILD / "wheels").glob(f"{name}-*.whl"))
