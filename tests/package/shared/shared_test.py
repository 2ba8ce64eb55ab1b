"""libtutti.so in a process: one state for all who use this version, and none in common with another version.

    shared_test.py --source . --binary build/shared --user libuser.so --compiler c++ [--launcher ccache] --work DIR

The other version is made of this one: its ABI has the number 1, and so have the namespace and the library's name.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 500


def run(*command, **options):
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, timeout=LIMIT, **options)


def other_version(args):
    """The shared library of another version, and a user's library on it."""
    source, binary = args.work / "source", args.work / "build"
    shutil.rmtree(args.work, ignore_errors=True)
    for name in ("include", "src", "cmake"):
        shutil.copytree(args.source / name, source / name)
    for name in ("CMakeLists.txt", "LICENSE"):
        shutil.copy(args.source / name, source)
    changed = 0
    for file in source.rglob("*"):
        if file.suffix not in (".cpp", ".hpp", ".in", ".txt") or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        other = re.sub(r"\binline namespace (TUTTI_EXPORT )?v0\b", r"inline namespace \1v1", text)
        other = other.replace("set(TUTTI_ABI 0)", "set(TUTTI_ABI 1)")
        if other != text:
            file.write_text(other, encoding="utf-8")
            changed += 1
    assert changed > 50, changed
    # Kernels for one instruction set: compiling the others takes minutes and shows nothing here.
    run("cmake", "-S", source, "-B", binary, "-G", "Ninja", "-DBUILD_SHARED_LIBS=ON", "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_CXX_FLAGS_DEBUG=-O0 -DHWY_COMPILE_ONLY_STATIC", "-DTUTTI_UNITY=ON", "-DTUTTI_TESTS=OFF", "-DTUTTI_TOOLS=OFF",
        "-DTUTTI_BENCH=OFF", "-DTUTTI_EXAMPLES=OFF", "-DTUTTI_C=OFF", "-DTUTTI_MPI=OFF", "-DTUTTI_NCCL=OFF",
        "-DTUTTI_CUDA_KERNELS=OFF", f"-DCMAKE_CXX_COMPILER={args.compiler}", f"-DCMAKE_CXX_COMPILER_LAUNCHER={args.launcher}")
    run("cmake", "--build", binary, "--target", "tutti")
    user = args.work / "libuser_of_other.so"
    run(args.compiler, "-std=c++20", "-O0", "-fPIC", "-shared", f"-I{source}/include", f"-I{binary}/include",
        HERE / "user.cpp", "-o", user, f"-L{binary}/src", "-ltutti", f"-Wl,-rpath,{binary}/src")
    return user


def check_names(library):
    """Only what the public headers declare is shown, under the version of the ABI."""
    done = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True, timeout=60)
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    strange = [name for name in names if name != "TUTTI_0" and not re.fullmatch(r"_Z(T.|GVZ|Z)?NK?5tutti2v0\w*@@TUTTI_0", name)]
    assert len(names) > 100 and not strange, strange
    done = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True, timeout=60)
    assert "SONAME" in done.stdout and "[libtutti.so.0]" in done.stdout, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("source", "binary", "user", "work"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--launcher", default="")
    args = parser.parse_args()
    check_names(args.binary / "src" / "libtutti.so")
    other = other_version(args)
    home = args.work / "home"
    home.mkdir()
    environment = os.environ | {"PYTHONPATH": str(args.binary / "python"), "HOME": str(home)}
    for order in ("first", "last"):
        run(sys.executable, HERE / "one_state.py", args.user, args.binary / "bindings" / "c" / "libtutti_c.so", other, order,
            env=environment)


if __name__ == "__main__":
    main()
