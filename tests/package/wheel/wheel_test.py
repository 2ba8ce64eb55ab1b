"""The wheel that these tests run from: what it holds, and that it needs no compiler."""

import csv
import importlib.metadata
import json
import os
import pathlib
import re
import shutil
import sys
import urllib.parse
import zipfile

import pytest

import stacks

LIMIT = 60
ROOT = pathlib.Path(__file__).resolve().parents[3]
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


def run(*command, env=None):
    return stacks.output(command, LIMIT, env=env)


def test_one_wheel_per_python_and_one_from_the_stable_abi_on(wheel, names):
    version = sys.version_info[:2]
    tag = "cp312-abi3" if version >= (3, 12) else "cp{0}{1}-cp{0}{1}".format(*version)
    assert f"-{tag}-linux_" in wheel.name
    module = "tutti/_tutti.abi3.so" if version >= (3, 12) else "tutti/_tutti.cpython-"
    assert any(name.startswith(module) for name in names)


def test_it_holds_types_programs_and_libraries(names):
    assert {"tutti/py.typed", "tutti/_tutti.pyi", "tutti/_bin/tuttirun", "tutti/_bin/tutti",
            "tutti/_bin/tutti_bench_tutti",
            "tutti/pytest_plugin.py"} <= names
    sources = {path.relative_to(ROOT / folder).as_posix() for folder in ("bindings/python", "bindings/torch")
               for path in (ROOT / folder / "tutti").rglob("*.py")}
    assert sources <= names
    assert not any(name.startswith(("tests/", "src/")) or name.endswith((".a", ".hpp")) for name in names)


def test_it_runs_on_ubuntu_22_04_and_newer(wheel, tmp_path, monkeypatch):
    pytest.importorskip("auditwheel", reason="auditwheel is not installed (./dev deps python)")
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import build_wheels
    copy = pathlib.Path(shutil.copy(wheel, tmp_path))
    named = build_wheels.tagged(copy, sys.executable)
    platform = build_wheels.platform_of(named, sys.executable)
    assert named.name.endswith(f"-{platform}.whl") and re.match(r"manylinux_2_(2\d|3[0-5])_x86_64$", platform)
    with zipfile.ZipFile(named) as archive:
        told = next(name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        assert f"-{platform}\n" in archive.read(told).decode()
    assert [file.name for file in tmp_path.iterdir()] == [named.name]
    run(sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", "-q",
        "--target", tmp_path / "installed", named)
    monkeypatch.setattr(build_wheels, "OLDEST_GLIBC", (2, 17))
    with pytest.raises(SystemExit, match="it must run with glibc 2.17"):
        build_wheels.tagged(pathlib.Path(shutil.copy(wheel, tmp_path)), sys.executable)


def test_metadata(fresh):
    text = next(fresh.glob("lib/*/site-packages/tutti-*.dist-info/METADATA")).read_text(encoding="utf-8")
    declared = re.findall(r"^Classifier: Programming Language :: Python :: (3\.\d+)$", text, re.MULTILINE)
    assert declared == ["3.10", "3.11", "3.12", "3.13", "3.14"]
    version = re.search(r"^  VERSION (\S+)$", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"),
                        re.MULTILINE)[1]
    assert f"Version: {version}\n" in text and "Requires-Python: >=3.10\n" in text
    assert not re.search(r"^Requires-Dist: (?!.*extra ==)", text, re.MULTILINE)


def test_no_library_of_this_machine_is_needed(fresh):
    package = next(fresh.glob("lib/*/site-packages/tutti"))
    for file in (*package.glob("_tutti*.so"), *package.glob("_bin/*")):
        needed = dict(re.findall(r"^\s+(\S+)(?: => (\S+))? \(", run("ldd", file), re.MULTILINE))
        foreign = {name for name, path in needed.items() if os.path.basename(name) not in SYSTEM
                   and not os.path.realpath(path).startswith(os.path.realpath(package))}
        assert not foreign, file


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
