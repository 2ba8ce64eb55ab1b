#!/usr/bin/env python3
"""Builds the wheels of all Pythons that are here, and tries each of them.

    build_wheels.py [--folder dist] [--torch] [--torch-versions 2.13.0,2.14.1] [--cuda] [python3.10 ...]

Pythons before 3.12 get a wheel each, the others share one (the stable ABI). Each wheel is installed into a new
virtual environment of every Python that it is for, and two ranks add up a number, started by the installed
tuttirun with nothing in PATH that could compile. Without names: python3.10 to python3.14, those found in PATH.

auditwheel names a wheel for the oldest C library that it runs with. Beside each wheel of tutti lies the list of what it
is made of (tools/sbom.py).

With --torch each Python gets a wheel of tutti-torch, too. It holds a module for each of --torch-versions, by default
for those of the section [torch-wheels] of tools/pip-packages.txt that pip can get. Two ranks add up a number with each
of them. A torch for GPUs (540 MB) is installed without CUDA's libraries (4 GB): its module is then compiled, but not
tried, since such a torch cannot be imported. With --cuda they are installed.
"""

import argparse
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUPPORTED = ["python3.10", "python3.11", "python3.12", "python3.13", "python3.14"]
BUILD_LIMIT = 3600
TRY_LIMIT = 120
# Not copied into a wheel: libtutti comes with the package `tutti`, and torch's libraries with torch.
EXCLUDED = [word for name in ("libtutti*", "libtorch*", "libc10*") for word in ("--exclude", name)]
FOR_GPUS = ("cuda-", "nvidia-", "triton")  # what a torch for GPUs wants besides
PROGRAM = """
import array
import tutti.distributed as dist
dist.init_process_group()
x = array.array("d", [dist.get_rank() + 1.0])
dist.all_reduce(x)
assert x[0] == 3
dist.destroy_process_group()
"""
TORCH_PROGRAM = """
import torch
import torch.distributed as dist
import tutti.torch
assert tutti.torch.ProcessGroupTutti.__module__.startswith("_tutti_torch_"), "it took the Python fallback"
dist.init_process_group("tutti")
x = torch.full((3,), dist.get_rank() + 1.0)
dist.all_reduce(x)
assert (x == 3).all()
dist.destroy_process_group()
"""


def run(*command, limit=TRY_LIMIT, **options):
    subprocess.run([str(word) for word in command], check=True, timeout=limit, **options)


def version_of(python):
    """(3, 12), or None if it is not there or too old for us."""
    code = "import sys; print(*sys.version_info[:2])"
    try:
        said = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True,
                              timeout=TRY_LIMIT).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    version = tuple(map(int, said.split()))
    return version if version >= (3, 10) else None


def build_settings():
    """Build folders of different Pythons hold the same objects: ccache knows them by their relative names.
    The compiler is named, since some Pythons would name another one, and ccache tells them apart."""
    return {"CXX": "c++", **os.environ, "CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1"}


def build(python, version, folder, scratch):
    """The wheel for this Python; one that serves it is not built again."""
    shared = version >= (3, 12)
    tag = "cp312-abi3" if shared else f"cp{version[0]}{version[1]}-"
    found = sorted(folder.glob(f"tutti-*-{tag}*.whl"))
    if found and shared:
        return found[-1]
    for old in found:
        old.unlink()
    pip = environment(python, scratch / "build") / "bin" / "pip"
    run(pip, "install", *tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"])
    run(pip, "wheel", ROOT, "--no-build-isolation", "--no-deps", "-w", scratch, limit=BUILD_LIMIT, env=build_settings())
    run(pip, "install", "auditwheel>=6.8,<7")
    built = next(scratch.glob("tutti-*.whl"))
    wheel = repaired(built, folder, pip.with_name("python"))
    # pip has built it in a folder of this name (pyproject.toml), and nanobind is there until `scratch` is removed.
    run(python, ROOT / "tools/sbom.py", "--build", ROOT / "build" / "-".join(built.stem.split("-")[2:]), "-o",
        wheel.with_suffix(".spdx.json"))
    return wheel


def repaired(wheel, folder, python):
    """The wheel in `folder`, named by auditwheel for the oldest C library that it runs with; `python` has auditwheel. A
    library of this machine that it would have to hold is an error (--patcher none)."""
    with tempfile.TemporaryDirectory(dir=folder) as new:
        run(python, "-m", "auditwheel", "repair", "--patcher", "none", *EXCLUDED, "-w", new, wheel)
        made = next(pathlib.Path(new).iterdir())
        return made.replace(folder / made.name)


def environment(python, folder):
    run(python, "-m", "venv", "--clear", folder)
    return folder


def torch_versions():
    """The versions of the section [torch-wheels] of the table."""
    lines = (ROOT / "tools/pip-packages.txt").read_text(encoding="utf-8").split("[torch-wheels]")[1].splitlines()
    return [line.removeprefix("torch==") for line in itertools.takewhile(lambda line: not line.startswith("["), lines)
            if line.startswith("torch==")]


def install_torch(pip, version, cuda):
    """torch and what it imports, of CUDA's libraries only if `cuda`. True if nothing that it imports is missing."""
    install = [pip, "install"]
    run(*install, f"torch=={version}", *[] if cuda else ["--no-deps"], limit=BUILD_LIMIT)
    code = "import importlib.metadata; print('\\n'.join(importlib.metadata.requires('torch')))"
    wanted = subprocess.run([pip.with_name("python"), "-c", code], check=True, capture_output=True, text=True,
                            timeout=TRY_LIMIT).stdout.splitlines()
    wanted = [one for one in wanted if "extra ==" not in one]
    for_cpus = [one for one in wanted if not one.startswith(FOR_GPUS)]
    run(*install, "numpy", "scikit-build-core>=0.11,<2", *for_cpus, limit=BUILD_LIMIT)
    return cuda or for_cpus == wanted


def merge(wheels, folder, python, scratch):
    """One wheel with the files of all of them, which are for one Python and one version of tutti. `python` has `wheel`
    and auditwheel."""
    for wheel in wheels:
        run(python, "-m", "wheel", "unpack", "--dest", scratch / "merged", wheel, stdout=subprocess.DEVNULL)
    run(python, "-m", "wheel", "pack", "--dest-dir", scratch, next((scratch / "merged").iterdir()), stdout=subprocess.DEVNULL)
    return repaired(scratch / wheels[0].name, folder, python)


def build_torch(python, tutti_wheel, args, scratch):
    """The wheel of tutti-torch for this Python, tried with each torch that is complete; and what it serves, in words."""
    wheels, environments = [], {}
    for version in args.torch_versions or torch_versions():
        fresh = environment(python, scratch / f"torch-{version}")
        pip = fresh / "bin" / "pip"
        try:
            complete = install_torch(pip, version, args.cuda)
        except subprocess.CalledProcessError:
            if args.torch_versions:
                raise
            print(f"{python}: pip cannot install torch {version}: no module for it", flush=True)
            continue
        run(pip, "install", "--no-index", tutti_wheel)
        run(pip, "wheel", ROOT / "bindings/torch", "--no-build-isolation", "--no-deps",
            "-w", scratch / f"wheel-{version}", limit=BUILD_LIMIT, env=build_settings())
        wheels += (scratch / f"wheel-{version}").glob("tutti_torch-*.whl")
        environments[version] = fresh, complete
    if not wheels:
        raise SystemExit(f"{python}: pip can install none of torch {', '.join(torch_versions())}")
    run(pip, "install", "wheel", "auditwheel")
    merged = merge(wheels, args.folder, pip.with_name("python"), scratch)
    program = scratch / "torch_program.py"
    program.write_text(TORCH_PROGRAM, encoding="utf-8")
    served = []
    for version, (fresh, complete) in environments.items():
        run(fresh / "bin" / "pip", "install", "--no-index", "--no-deps", merged)
        if complete:
            run(fresh / "bin" / "torchrun", "--standalone", "--nproc-per-node", 2, program,
                env={"PATH": str(fresh / "bin"), "HOME": str(scratch)})
        served.append(f"torch {version} {'works' if complete else 'compiled, but not tried (--cuda would)'}")
    return f"{merged.name}: {', '.join(served)}"


def attempt(python, wheel, scratch):
    """Two ranks with the wheel alone, and its benchmark."""
    fresh = environment(python, scratch / "try")
    run(fresh / "bin" / "pip", "install", "--no-index", wheel)
    program = scratch / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    alone = {"PATH": str(fresh / "bin"), "HOME": str(scratch)}
    run(fresh / "bin" / "tuttirun", "--nproc-per-node", 2, program, env=alone)
    run(fresh / "bin" / "tutti", "bench", "--ranks", 2, "--sizes", 8, "--rounds", 1, "--budget", 2, env=alone,
        stdout=subprocess.DEVNULL)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "dist", help="where the wheels go")
    parser.add_argument("--torch", action="store_true", help="wheels of tutti-torch, too")
    parser.add_argument("--torch-versions", type=lambda text: text.split(","),
                        help="with commas; all of them must work [those of tools/pip-packages.txt that pip can get]")
    parser.add_argument("--cuda", action="store_true", help="install CUDA's libraries, to try a torch for GPUs")
    parser.add_argument("pythons", nargs="*", help="interpreters [those found of 3.10 to 3.14]")
    args = parser.parse_args()
    pythons = args.pythons or [name for name in SUPPORTED if shutil.which(name)]
    args.folder.mkdir(exist_ok=True)
    os.environ.update(PIP_QUIET="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
    for old in [] if args.pythons else args.folder.glob("tutti-*.whl"):
        old.unlink()  # none is taken for one of this build
    tried = 0
    for python in pythons:
        version = version_of(python)
        if version is None:
            print(f"{python}: not there, or older than 3.10")
            continue
        with tempfile.TemporaryDirectory(prefix="tutti-wheels-") as scratch:
            wheel = build(python, version, args.folder, pathlib.Path(scratch))
            attempt(python, wheel, pathlib.Path(scratch))
            if args.torch:
                print(f"{python}: {build_torch(python, wheel, args, pathlib.Path(scratch))}", flush=True)
        tried += 1
        print(f"{python}: {wheel.name} works", flush=True)
    return 0 if tried else 1


if __name__ == "__main__":
    sys.exit(main())
