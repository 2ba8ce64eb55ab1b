"""The wheel for aarch64: cross compiled, looked into, and run under qemu-user. Its Python is that of Debian for arm64. It
is unpacked into a folder, since installed it would take the place of this machine's."""

import os
import re
import shutil
import sys

from aarch64_tests import EMULATOR
from console import BUILD, ROOT, need, output_of, run, say
from python_tests import PYTHON, VENV

sys.path.insert(0, str(ROOT / "tools"))

import build_wheels  # noqa: E402

VERSION = "3.11"  # of Debian 12
PACKAGES = [f"python{VERSION}-minimal", *(f"libpython{VERSION}-{part}" for part in ("minimal", "stdlib", "dev")), "libexpat1",
            "libffi8", "zlib1g"]
FOLDER = BUILD / "aarch64-wheel"
DEBIAN = FOLDER / "debian"
LIBRARIES = [DEBIAN / folder / "aarch64-linux-gnu" for folder in ("usr/lib", "lib")]


def python_for(folder):
    """The emulated Python, with the packages in `folder`."""
    return (*EMULATOR, "-E", "LD_LIBRARY_PATH=" + ":".join(map(str, LIBRARIES)), "-E", f"PYTHONPATH={folder}",
            DEBIAN / "usr/bin" / f"python{VERSION}")


def unpack_python():
    packages = FOLDER / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    return run("apt-get", "-q", "download", *(f"{name}:arm64" for name in PACKAGES), cwd=packages, log=FOLDER / "apt.log") and \
        all(run("dpkg", "-x", file, DEBIAN) for file in packages.glob("*.deb"))


def build_wheel():
    """Sets by hand the values that scikit-build-core and CMake would ask of a Python that runs here."""
    say("building the wheel for aarch64")
    include = DEBIAN / "usr/include"
    definitions = {"CMAKE_TOOLCHAIN_FILE": ROOT / "cmake/aarch64.cmake", "Python_INCLUDE_DIR": include / f"python{VERSION}",
                   "TUTTI_WERROR": "ON", "TUTTI_CUDA_KERNELS": "OFF"}
    return run(
        VENV / "bin" / "pip", "wheel", ".", "--disable-pip-version-check", "--no-input", "-v", "--no-build-isolation", "--no-deps",
        "-w", FOLDER / "built", *(f"--config-settings=cmake.define.{name}={value}" for name, value in definitions.items()),
        log=BUILD / "aarch64-wheel.log",
        env=build_wheels.build_settings() | {
            "_PYTHON_HOST_PLATFORM": "linux-aarch64", "CXX": "aarch64-linux-gnu-g++", "CXXFLAGS": f"-isystem {include}",
            "SETUPTOOLS_EXT_SUFFIX": f".cpython-{VERSION.replace('.', '')}-aarch64-linux-gnu.so"})


def all_for_aarch64(package):
    """True if it has programs and libraries, each of them for aarch64."""
    files = [file for file in package.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
    return len(files) == 8 and all("AArch64" in (output_of("readelf", "-h", file) or "") for file in files)


def wheel(job):
    need("core", "python", "wheel", "aarch64")
    shutil.rmtree(FOLDER, ignore_errors=True)
    with job.phases.phase("aarch64: building the wheel"):
        if not unpack_python() or not build_wheel():
            job.results.failed("the wheel for aarch64")
            return
    named = build_wheels.repaired(next((FOLDER / "built").glob("tutti-*.whl")), FOLDER, PYTHON)
    platform = re.search(r"-(\w+)\.whl$", named.name)[1]
    print(f"{named.name}: {named.stat().st_size / 1e6:.1f} MB")
    site = FOLDER / "site-packages"
    program = FOLDER / "program.py"
    program.write_text(build_wheels.PROGRAM, encoding="utf-8")
    with job.phases.phase("aarch64: the wheel"):
        job.results.outcome("the files of the wheel for aarch64 are those that it records", run(
            PYTHON, "-m", "wheel", "unpack", "--dest", FOLDER / "unpacked", named))
        job.results.outcome("pip installs the wheel for aarch64", re.fullmatch(r"manylinux_2_34_aarch64", platform) and run(
            VENV / "bin" / "pip", "install", "--disable-pip-version-check", "-q", "--no-index", "--only-binary=:all:", "--platform",
            platform, "--python-version", VERSION, "--target", site, named))
        job.results.outcome("all programs and libraries in it are for aarch64", all_for_aarch64(site / "tutti"))
        job.results.outcome("two ranks add up a number with the wheel for aarch64", run(
            "timeout", "120", *EMULATOR, site / "tutti/bin/tuttirun", "--nproc-per-node", "2", *python_for(site), program))
