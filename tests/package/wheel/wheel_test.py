"""The wheel that these tests run from: what it holds, and that it needs no compiler."""

import csv
import importlib.metadata
import json
import os
import pathlib
import re
import sys
import urllib.parse
import zipfile

import pytest

import stacks

LIMIT = 60
ROOT = pathlib.Path(__file__).resolve().parents[3]
# The newest versions of symbols, and no newer ones, of these parts of the system: those of RHEL 9 and Amazon Linux 2023.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (4, 2, 0), "TUTTI": (0,)}
# What every Linux with Python and a C++ runtime has.
SYSTEM = {"linux-vdso.so.1", "libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2",
          "libpthread.so.0", "ld-linux-x86-64.so.2"}
PROGRAM = """
import array
import tutti.distributed as dist
dist.init_process_group()
x = array.array("f", [1.0, dist.get_rank()])
dist.all_reduce(x)
assert list(x) == [2.0, 1.0], x
print("rank", dist.get_rank(), flush=True)
dist.destroy_process_group()
"""
CPP_PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(user LANGUAGES CXX)
find_package(tutti CONFIG REQUIRED)
add_executable(program program.cpp)
target_link_libraries(program PRIVATE tutti::tutti)
add_library(user SHARED library.cpp)
target_link_libraries(user PRIVATE tutti::tutti)
"""
CPP_PROGRAM = """
#include <array>
#include <cstdio>
#include <tutti/tutti.hpp>
int main() {
  tutti::ProcessGroup world = tutti::init_process_group();
  std::array<double, 1> x = {world.rank() + 1.0};
  world.all_reduce(x);
  std::printf("%g\\n", x[0]);
}
"""
CPP_LIBRARY = """
#include <tutti/log.hpp>
static int lines = 0;
extern "C" void take_the_log() {
  tutti::set_log_sink([](tutti::LogLevel, std::string_view) { ++lines; }, tutti::LogLevel::debug);
}
extern "C" int lines_seen() { return lines; }
"""
# The module and another library: what one logs, the other sees.
LOGS = """
with tutti.init_process_group(rank=0, world_size=1):
    pass
with open("/proc/self/maps") as maps:
    files = {line.split()[-1] for line in maps if "/libtutti.so" in line}
assert len(files) == 1, files
"""
ONE_LOG = f"""
import ctypes, os, sys, tutti
os.environ["TUTTI_LOG_LEVEL"] = "debug"
user = ctypes.CDLL(sys.argv[1])
user.take_the_log()
{LOGS}
assert user.lines_seen() > 0
print("well")
"""
ONE_LOG_IN_C = f"""
import ctypes, os, sys, tutti
os.environ["TUTTI_LOG_LEVEL"] = "debug"
lines = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
def sink(context, level, line):
    lines.append(line)
assert ctypes.CDLL(sys.argv[1]).tutti_set_log_sink(sink, None, 0) == 0
{LOGS}
assert lines
ctypes.CDLL(sys.argv[1]).tutti_set_log_sink(None, None, 0)
print("well")
"""


@pytest.fixture(scope="module")
def wheel():
    """The file that tutti was installed from."""
    try:
        text = importlib.metadata.distribution("tutti").read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        text = None
    if text is None:
        pytest.skip("tutti was not installed from a wheel; ./dev test python does that")
    url = urllib.parse.urlparse(json.loads(text)["url"])
    return pathlib.Path(urllib.parse.unquote(url.path))


@pytest.fixture(scope="module")
def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """A new virtual environment with tutti in it and nothing else."""
    folder = tmp_path_factory.mktemp("fresh")
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    run(sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install", "--no-index",
        "--disable-pip-version-check", "-q", wheel)
    return folder


@pytest.fixture(scope="module")
def package(fresh):
    return next(fresh.glob("lib/*/site-packages/tutti"))


def run(*command, env=None):
    return stacks.output(command, LIMIT, env=env)


def test_one_wheel_per_python_and_one_from_the_stable_abi_on(wheel, names):
    version = sys.version_info[:2]
    tag = "cp312-abi3" if version >= (3, 12) else "cp{0}{1}-cp{0}{1}".format(*version)
    assert f"-{tag}-linux_" in wheel.name
    module = "tutti/_tutti.abi3.so" if version >= (3, 12) else "tutti/_tutti.cpython-"
    assert any(name.startswith(module) for name in names)


def test_it_holds_types_and_a_prefix(names):
    assert {"tutti/py.typed", "tutti/_tutti.pyi", "tutti/pytest_plugin.py", "tutti/bin/tuttirun", "tutti/bin/tutti",
            "tutti/bin/tutti_bench_tutti", "tutti/lib/libtutti.so.0", "tutti/lib/libtutti_c.so.0",
            "tutti/lib/tutti/tutti_backend_mpi.so", "tutti/lib/tutti/tutti_backend_nccl.so",
            "tutti/lib/cmake/tutti/tuttiConfig.cmake", "tutti/include/tutti/c.h", "tutti/include/tutti/tutti.hpp",
            "tutti/include/tutti/version.hpp"} <= names
    sources = {path.relative_to(ROOT / folder).as_posix() for folder in ("bindings/python", "bindings/torch")
               for path in (ROOT / folder / "tutti").rglob("*.py")}
    assert sources <= names
    assert sum(".so" in name for name in names) == 7  # with _lightgbm and libtutti_jax; no second library, and none under two names
    assert not any(name.startswith(("tests/", "src/")) or name.endswith((".a", ".pc")) for name in names)


def binaries(package):
    """The programs and libraries of the installed package."""
    return [file for file in package.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]


def test_it_needs_no_newer_symbols_than_stated(package):
    files = binaries(package)
    assert len(files) == 8
    newer = set()
    for file in files:
        wanted = re.findall(r"\*UND\*\s+\w+\s+\(?([A-Z]+)_([\d.]+)\)?\s+(\w+)", run("objdump", "-T", file))
        assert wanted, file
        newer |= {f"{file.name}: {name} of {family}_{version}" for family, version, name in wanted
                  if family not in NEWEST or tuple(map(int, version.split("."))) > NEWEST[family]}
    assert not newer


def test_auditwheel_names_it_as_the_manual_says(wheel, tmp_path, monkeypatch):
    pytest.importorskip("auditwheel", reason="auditwheel is not installed (./dev deps python)")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import build_wheels
    named = build_wheels.repaired(wheel, tmp_path, sys.executable)
    platform = re.search(r"-(\w+)\.whl$", named.name)[1]
    assert platform == "manylinux_{0}_{1}_x86_64".format(*NEWEST["GLIBC"])
    assert f"`{platform}`" in (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    with zipfile.ZipFile(named) as archive:
        told = next(name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert f"-{platform}\n" in archive.read(told).decode()
    assert [file.name for file in tmp_path.iterdir()] == [named.name]
    run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", "-q",
        "--target", tmp_path / "installed", named)


def test_metadata(fresh):
    text = next(fresh.glob("lib/*/site-packages/tutti-*.dist-info/METADATA")).read_text(encoding="utf-8")
    declared = re.findall(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", text, re.MULTILINE)
    assert declared == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    version = re.search(r"^  VERSION (\S+)$", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"),
                        re.MULTILINE)[1]
    assert f"Version: {version}\n" in text and "Requires-Python: >=3.10\n" in text
    assert not re.search(r"^Requires-Dist: (?!.*extra ==)", text, re.MULTILINE)


def test_no_library_of_this_machine_is_needed(package):
    for file in binaries(package):
        needed = dict(re.findall(r"^\s+(\S+)(?: => (\S+))? \(", run("ldd", file), re.MULTILINE))
        foreign = {name for name, path in needed.items() if os.path.basename(name) not in SYSTEM
                   and not os.path.realpath(path).startswith(os.path.realpath(package))}
        assert not foreign, file


@pytest.fixture(scope="module")
def built_in_cpp(fresh, tmp_path_factory):
    """A program and a library in C++, built for the installed package."""
    folder = tmp_path_factory.mktemp("cpp")
    for name, text in (("CMakeLists.txt", CPP_PROJECT), ("program.cpp", CPP_PROGRAM), ("library.cpp", CPP_LIBRARY)):
        (folder / name).write_text(text)
    package_files = run(fresh / "bin" / "python", "-m", "tutti", "--cmake-dir").strip()
    run("cmake", "-S", folder, "-B", folder / "build", f"-Dtutti_DIR={package_files}")
    run("cmake", "--build", folder / "build")
    return folder / "build"


def test_a_program_in_cpp_runs_on_the_library_of_the_package(fresh, built_in_cpp):
    said = run(fresh / "bin" / "tuttirun", "--nproc-per-node", 2, built_in_cpp / "program")
    assert sorted(said.splitlines()) == ["3", "3"]


def test_a_library_in_cpp_and_the_module_have_one_log(fresh, built_in_cpp):
    assert run(fresh / "bin" / "python", "-c", ONE_LOG, built_in_cpp / "libuser.so").split() == ["well"]


def test_the_library_for_c_and_the_module_have_one_log(fresh, package):
    assert run(fresh / "bin" / "python", "-c", ONE_LOG_IN_C, package / "lib" / "libtutti_c.so.0").split() == ["well"]


def test_includes_are_an_option_of_the_compiler(fresh, tmp_path):
    (tmp_path / "user.cpp").write_text("#include <tutti/tutti.hpp>\n")
    run("c++", "-std=c++20", "-fsyntax-only", run(fresh / "bin" / "python", "-m", "tutti", "--includes").strip(),
        tmp_path / "user.cpp")


def test_two_ranks_where_there_is_no_compiler(fresh, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    # Nothing but this environment: no compiler, not even a shell.
    said = run(fresh / "bin" / "tuttirun", "--nproc-per-node", 2, program,
               env={"PATH": str(fresh / "bin"), "HOME": str(tmp_path)})
    assert sorted(said.splitlines()) == ["rank 0", "rank 1"]


def test_the_other_program_runs(fresh):
    assert "doctor" in run(fresh / "bin" / "tutti", "--help")


BENCH = ("bench", "all_reduce", "barrier", "--sizes", "8,4K", "--rounds", "1", "--budget", "2")


def test_bench_starts_its_ranks(fresh, tmp_path):
    page, table = tmp_path / "page.html", tmp_path / "table.csv"
    said = run(fresh / "bin" / "tutti", *BENCH, "--ranks", 2, "--html", page, "--csv", table,
               env={"PATH": str(fresh / "bin"), "HOME": str(tmp_path)})
    assert "all_reduce, 2 ranks" in said
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [(row["operation"], row["size"]) for row in rows] == [
        ("all_reduce", "8"), ("all_reduce", "4096"), ("barrier", "0")]
    assert all(float(row["avg_us"]) > 0 for row in rows)
    assert "<polyline" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", [("tutti",), ("-m", "tutti")])
def test_bench_measures_the_job_that_it_runs_in(fresh, tmp_path, command):
    said = run(fresh / "bin" / "tuttirun", "--nproc-per-node", 2, *command, *BENCH,
               env={"PATH": str(fresh / "bin"), "HOME": str(tmp_path)})
    assert said.count("launched by another program, on 1 host") == 1
    assert said.count("barrier, 2 ranks") == 1
