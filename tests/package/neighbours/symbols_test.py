"""No symbol of libtutti can meet one of a library that a program brings.

    symbols_test.py libtutti.a|libtutti.so

In the archive each symbol has one of our names, or is an instance of the standard library's and weak, as in every object of
C++. The shared library needs the C and C++ libraries alone; what it exports is looked at by tests/package/shared.
"""

import re
import subprocess
import sys

OURS = re.compile(r"tutti")
STANDARD = re.compile(r"(std|__gnu_cxx|__cxxabiv1)::|DW\.ref\.|typeinfo (name )?for [^:]+$")
NEEDED = re.compile(r"(ld-linux-[\w-]+|libc|libm|libstdc\+\+|libgcc_s|libc\+\+|libc\+\+abi|libpthread|libdl|librt)\.so\.\d+")
CALLED = re.compile(r"(?<!tutti_)\b(fmt|hwy|nlohmann)::")


def told(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.splitlines()


def symbols(library, *options):
    for line in told("nm", "-C", "--extern-only", "--no-sort", *options, library):
        if found := re.fullmatch(r"[0-9a-f ]{16} ([A-Za-z]) (.+)", line):
            yield found[1], found[2]


def check_archive(library):
    defined = list(symbols(library, "--defined-only"))
    assert len(defined) > 1000, len(defined)
    strange = {name for kind, name in defined
               if CALLED.search(name) or not OURS.search(name) and not (kind in "VWu" and STANDARD.search(name))}
    assert not strange, f"symbols that are not ours: {sorted(strange)[:20]}"
    missing = {name for _, name in symbols(library, "--undefined-only") if CALLED.search(name)}
    assert not missing, f"symbols of libraries that a program may have, too: {sorted(missing)[:20]}"


def check_shared(library):
    needed = [line.partition("[")[2].partition("]")[0] for line in told("readelf", "-d", library) if "(NEEDED)" in line]
    assert needed, library
    strange = [name for name in needed if not NEEDED.fullmatch(name)]
    assert not strange, f"libtutti needs {strange}"


def main():
    library = sys.argv[1]
    (check_archive if library.endswith(".a") else check_shared)(library)


if __name__ == "__main__":
    main()
