"""The compilers that users have: each builds the library and its programs once, and all public headers and the consumer
project in each standard. One of them does so with the oldest CMake."""

import concurrent.futures
import functools
import os

from compilers import COMPILERS, OLDEST_CMAKE, STANDARDS, WITH_OLDEST_CMAKE
from console import BUILD, JOBS, ROOT, Failed, need, output_of, run, say

FOLDER = BUILD / "compilers"
LIBCXX = ("libc++1-{}", "libc++-{}-dev", "libc++abi1-{}", "libc++abi-{}-dev", "libunwind-{}")
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
CONSUMER = ROOT / "tests" / "package" / "consumer" / "run.cmake"
PROGRAM = "02_all_reduce"
INSTALLED = ("tutti", "tutti_c", "tuttirun", "tutti_cli", "tutti_bench_tutti", "tutti_backend_mpi", "tutti_backend_nccl")
LANGUAGES_OF_C = ("c99", "c11")


@functools.cache
def libcxx(version):
    """The folder of a libc++. Debian can install one version only, so this one's packages are unpacked."""
    home = FOLDER / f"libc++-{version}"
    folder = home / "usr" / "lib" / f"llvm-{version}"
    if not folder.exists():
        packages = FOLDER / f"packages-{version}"
        packages.mkdir(parents=True, exist_ok=True)
        names = [name.format(version) for name in LIBCXX]
        if not (run("apt-get", "download", "-q", *names, cwd=packages, log=FOLDER / "download.log") and
                all(run("dpkg", "-x", file, home) for file in packages.glob("*.deb"))):
            raise Failed(f"cannot get libc++ {version}")
    return folder


def flags_of(compiler):
    """The options that compile and that link with its standard library."""
    if compiler.libcxx is None:
        # GCC 12's std::stable_sort uses what clang 19 knows as deprecated.
        return ["-Wno-deprecated-declarations"] if compiler.maker == "clang" else [], []
    folder = libcxx(compiler.libcxx)
    return ([f"-stdlib++-isystem{folder}/include/c++/v1"],
            ["-stdlib=libc++", f"-L{folder}/lib", f"-Wl,-rpath,{folder}/lib"])


def cmake_of(compiler):
    if compiler.name != WITH_OLDEST_CMAKE:
        return "cmake"
    need("python")
    home = FOLDER / f"cmake-{OLDEST_CMAKE}"
    if not (home / "bin" / "cmake").exists() and not (
            run("/usr/bin/python3", "-m", "venv", home) and
            run(home / "bin" / "pip", "install", "--disable-pip-version-check", "-q", f"cmake=={OLDEST_CMAKE}.*", log=FOLDER / "pip.log")):
        raise Failed(f"cannot install CMake {OLDEST_CMAKE}")
    return home / "bin" / "cmake"


def library(cmake, work, environment):
    """Builds the library and its programs as users do, and runs an all_reduce."""
    return (run(cmake, "-S", ROOT, "-B", work, "-G", "Ninja", "-DTUTTI_TESTS=OFF", "-DTUTTI_BENCH=OFF", "-DTUTTI_UNITY=ON",
                "-DTUTTI_WERROR=ON", "-DTUTTI_CUDA_KERNELS=OFF", env=environment, log=work.with_suffix(".log")) and
            run(cmake, "--build", work, "--target", *INSTALLED, PROGRAM, env=environment, log=work.with_suffix(".log")) and
            run("timeout", "60", work / "bin" / "tuttirun", "--nproc-per-node", "2", work / "bin" / PROGRAM))


def header_alone(command, language, standard, folder, name):
    """Does it compile by itself, and twice?"""
    source = FOLDER / "headers" / f"{name.replace('/', '_')}.{standard}"
    source.parent.mkdir(exist_ok=True)
    source.write_text(f"#include <{name}>\n#include <{name}>\n", encoding="utf-8")
    return run(*command, "-x", language, f"-std={standard}", *WARNINGS, "-fsyntax-only", "-I", folder, source)


def headers(compiler, folder):
    names = sorted(str(file.relative_to(folder)) for file in (folder / "tutti").rglob("*.h*"))
    if not names:
        raise Failed(f"{folder} has no headers")
    flags, _ = flags_of(compiler)
    jobs = [([compiler.cxx, *flags], "c++", f"c++{'2b' if standard == '23' else standard}", folder, name)
            for standard in STANDARDS for name in names]
    jobs += [([compiler.c], "c", standard, folder, name) for standard in LANGUAGES_OF_C for name in names if name.endswith(".h")]
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return all(list(pool.map(lambda job: header_alone(*job), jobs)))


def consumer(compiler, cmake, build, work, standard):
    """The consumer project, from an install of what was built."""
    flags, links = flags_of(compiler)
    flags += [*WARNINGS, "-Wno-unused-variable"]  # pieces of the guide leave variables unused
    return run(cmake, "-DHOW=find_package", f"-DSOURCE={ROOT}", f"-DBINARY={build}", f"-DWORK={work}", "-DGENERATOR=Ninja",
               f"-DCOMPILER={compiler.cxx}", f"-DFLAGS={' '.join(flags)}", f"-DSTANDARD={standard}", "-DLAUNCHER=ccache",
               "-P", CONSUMER, env=os.environ | {"LDFLAGS": " ".join(links)}, log=work.with_suffix(".log"))


def part(compiler):
    def run_part(job):
        need("core", "tests", "compilers")
        what = f"{compiler.maker} {compiler.version} with {compiler.library}"
        if (found := (output_of(compiler.cxx, "-dumpfullversion", "-dumpversion") or "").strip()) != compiler.version:
            raise Failed(f"tools/compilers.py says {what}, and this is {found or 'not there'}")
        FOLDER.mkdir(parents=True, exist_ok=True)
        cmake, build = cmake_of(compiler), FOLDER / compiler.name
        flags, links = flags_of(compiler)
        environment = os.environ | {"CC": compiler.c, "CXX": compiler.cxx, "CXXFLAGS": " ".join(flags), "LDFLAGS": " ".join(links)}
        say(f"{what}: the library")
        with job.phases.phase(f"{compiler.name}: the library"):
            built = library(cmake, build, environment)
            job.results.outcome(f"the library by {what}, and an all_reduce on 2 ranks", built)
        for standard in STANDARDS if built else []:
            say(f"{what}: the consumer in C++{standard}")
            with job.phases.phase(f"{compiler.name}: the consumer in C++{standard}"):
                job.results.outcome(f"the consumer in C++{standard} by {what}", consumer(
                    compiler, cmake, build, FOLDER / f"consumer-{compiler.name}-{standard}", standard))
        if built:
            say(f"{what}: each header by itself")
            with job.phases.phase(f"{compiler.name}: headers"):
                job.results.outcome(f"each public header by {what}", headers(
                    compiler, FOLDER / f"consumer-{compiler.name}-{STANDARDS[0]}" / "prefix" / "include"))
    return run_part


PARTS = {f"compilers:{compiler.name}": part(compiler) for compiler in COMPILERS}
