"""The plug-in for torch and the library for LibTorch, and their tests.

Both are users of the library like any other: the plug-in is built for the installed wheel, the other for a prefix, so
nothing is compiled but themselves.
"""

import os

from building import build, configure
from console import BUILD, ROOT, need, run
from python_tests import PYTHON, VENV, install_wheel, make_wheel, run_pytest

INSTALLED = ["tutti", "tutti_c", "tuttirun", "tutti_cli", "tutti_bench_tutti", "tutti_backend_mpi", "tutti_backend_nccl"]
TESTS = "tests/python/torch_backend"
LIBTORCH = f"{TESTS}/cpp_test.py"


def install_library(preset, kind=""):
    targets = [target for target in INSTALLED if preset == "dev" or target != "tutti_c"]
    return configure(preset) and build(preset, targets) and \
        run("cmake", "--install", BUILD / preset, "--prefix", BUILD / "torch" / f"prefix{kind}", log=BUILD / "install.log")


def make_plugin():
    need("core", "tests", "python", "wheel", "torch")
    for old in (BUILD / "wheels").glob("tutti_torch-*.whl"):
        old.unlink()
    return make_wheel() and install_wheel() and \
        run(VENV / "bin" / "pip", "wheel", "./bindings/torch", "--disable-pip-version-check", "--no-input", "-v", "--no-build-isolation",
            "--no-deps", "-w", BUILD / "wheels", "--config-settings=cmake.define.TUTTI_WERROR=ON",
            f"--config-settings=build-dir={BUILD / 'torch' / 'wheel'}", log=BUILD / "torch.log",
            env=os.environ | {"CXX": os.environ.get("CXX", "c++")}) and install_wheel("tutti_torch")


def build_libtorch(kind="", flags="-O0", *targets):
    """The library for LibTorch and the programs that try it, as users of an installed library."""
    folder = BUILD / "torch" / f"cpp{kind}"
    torch = next((VENV / "lib").glob("python3*/site-packages/torch/share/cmake"))
    return run("cmake", "-S", f"{TESTS}/cpp", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
               f"-DCMAKE_CXX_FLAGS_DEBUG={flags}", "-DTUTTI_WERROR=ON",
               f"-DCMAKE_PREFIX_PATH={BUILD / 'torch' / f'prefix{kind}'};{torch}", log=BUILD / "libtorch.log") and \
        run("cmake", "--build", folder, *(["--target", *targets] if targets else []), log=BUILD / "libtorch.log")


def plugin(job):
    """The plug-in for torch.distributed in Python."""
    with job.phases.phase("torch: building"):
        if not make_plugin():
            job.results.failed("the plug-in for torch")
            return
    with job.phases.phase("torch: tests"):
        run_pytest("torch", job.results, "--ignore", LIBTORCH, "--ignore", f"{TESTS}/clients", TESTS)


def libtorch(job):
    with job.phases.phase("LibTorch: building"):
        if not make_plugin() or not install_library("dev") or not build_libtorch():
            job.results.failed("the library for LibTorch")
            return
    with job.phases.phase("LibTorch: tests"):
        run_pytest("libtorch", job.results, LIBTORCH)


def tsan(job):
    """The cases of LibTorch on 2 ranks under tsan. torch is built without it; -Wno-tsan is for a fence in its headers,
    which only objects of Python need."""
    need("core", "tests", "python", "wheel", "torch")
    with job.phases.phase("LibTorch under tsan: building"):
        if not install_library("tsan", "_tsan") or not build_libtorch(
                "_tsan", "-O1 -g1 -fsanitize=thread -fno-omit-frame-pointer -Wno-tsan", "torch_checks"):
            job.results.failed("the library for LibTorch under tsan")
            return
    with job.phases.phase("LibTorch under tsan: tests"):
        run_pytest("libtorch_tsan", job.results, LIBTORCH, "-k", "test_case and 2", TUTTI_LONG_TESTS="0",
                   TORCH_CPP_BUILD=str(BUILD / "torch" / "cpp_tsan"),
                   TSAN_OPTIONS="ignore_noninstrumented_modules=1:second_deadlock_stack=1")


def peers(job):
    """The programs of examples/peers with tutti, MPI and c10d, which check themselves."""
    need("core", "tests", "torch", "peers")
    folder = BUILD / "peers"
    with job.phases.phase("peers: building"):
        torch = next((VENV / "lib").glob("python3*/site-packages/torch/share/cmake"))
        if not install_library("dev") or not run(
                "cmake", "-S", "examples/peers", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                f"-DCMAKE_PREFIX_PATH={BUILD / 'torch' / 'prefix'};{torch}", log=BUILD / "peers.log") or not run(
                "cmake", "--build", folder, log=BUILD / "peers.log"):
            job.results.failed("the programs of examples/peers")
            return
    tuttirun = BUILD / "torch" / "prefix" / "bin" / "tuttirun"
    with job.phases.phase("peers: programs"):
        for size in ("1", "2", "3", "4"):
            file = folder / "ranks"  # by which the ranks of c10d meet: a new one for each job
            file.unlink(missing_ok=True)
            for command in ([tuttirun, "-n", size, folder / "tutti_programs"],
                            ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", size, folder / "mpi_programs"],
                            [tuttirun, "-n", size, folder / "c10d_programs", file]):
                name = next(word.name for word in reversed(command) if word != file)
                job.results.outcome(f"{name} on {size} ranks", run("timeout", "120", *command))


def conformance(job):
    """torch's own tests of a backend, as its wheel holds them, and programs of torch.distributed that others wrote."""
    with job.phases.phase("torch's own tests: building"):
        need("conformance", "clients")
        if not make_plugin():
            job.results.failed("the plug-in for torch")
            return
    with job.phases.phase("torch's own tests"):
        job.results.outcome("torch's own tests of a backend", run(
            PYTHON, ROOT / "tools" / "run_with_stacks.py", "--timeout", "1200", "--", PYTHON, f"{TESTS}/conformance/run.py"))
        run_pytest("clients", job.results, f"{TESTS}/clients")
