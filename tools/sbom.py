#!/usr/bin/env python3
"""Writes the list of what a build of tutti is made of (SBOM), as SPDX 2.3 in JSON.

    sbom.py [--build build/release] [-o FILE]

Compiled in: {fmt}, Highway, nlohmann-json and, where the build has them, CLI11 (programs) and nanobind (Python).
Linked or loaded: the C++ library of the compiler, and OpenSSL. The versions are those that CMake has found.
"""

import argparse
import datetime
import json
import pathlib
import re
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Our name, CMake's package, the licence, the place of the sources.
COMPILED_IN = (
    ("fmt", "fmt", "MIT", "https://github.com/fmtlib/fmt"),
    ("highway", "hwy", "Apache-2.0", "https://github.com/google/highway"),
    ("nlohmann-json", "nlohmann_json", "MIT", "https://github.com/nlohmann/json"),
    ("CLI11", "CLI11", "BSD-3-Clause", "https://github.com/CLIUtils/CLI11"),
    ("nanobind", "nanobind", "BSD-3-Clause", "https://github.com/wjakob/nanobind"),
)
OPTIONAL = {"CLI11", "nanobind"}


def cache_of(build):
    """The variables of CMakeCache.txt."""
    text = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^(\w+):\w+=(.*)$", text, re.MULTILINE))


def version_of(folder, package):
    """The version that a package's file for CMake gives."""
    for name in (f"{package}ConfigVersion.cmake", f"{package.lower()}-config-version.cmake"):
        file = folder / name
        if file.is_file() and (found := re.search(r'set\(PACKAGE_VERSION "?([\d.]+)', file.read_text(encoding="utf-8"), re.I)):
            return found[1]
    raise SystemExit(f"sbom: {folder} does not say which version of {package} it is")


def value_in(files, pattern, what):
    """The first group of the pattern in the first of these files that has it."""
    for file in files:
        if file.is_file() and (found := re.search(pattern, file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)):
            return found[1]
    raise SystemExit(f"sbom: the build does not say which version of {what} it has")


def openssl_version(cache):
    """The version of OpenSSL's headers, which say what the program may load."""
    include = pathlib.Path(cache["OPENSSL_INCLUDE_DIR"])
    # Debian keeps this header in a folder of the architecture.
    return value_in([include / "openssl/opensslv.h", *include.glob("*/openssl/opensslv.h")],
                    r'OPENSSL_VERSION_STR "([^"]+)"', "OpenSSL")


def parts_of(build):
    """Name, version, licence, place, and how the build depends on it."""
    cache = cache_of(build)
    for name, package, licence, place in COMPILED_IN:
        folder = cache.get(f"{package}_DIR", "NOTFOUND")
        if not folder.endswith("NOTFOUND"):
            yield name, version_of(pathlib.Path(folder), package), licence, place, "CONTAINS"
        elif name not in OPTIONAL:
            raise SystemExit(f"sbom: {build} was configured without {name}")
    compiler = value_in(build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"), r'^set\(CMAKE_CXX_COMPILER_VERSION "([\d.]+)"', "the compiler")
    name = value_in(build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"), r'^set\(CMAKE_CXX_COMPILER_ID "(\w+)"', "the compiler")
    if name == "GNU":
        yield ("libstdc++", compiler, "GPL-3.0-or-later WITH GCC-exception-3.1", "https://gcc.gnu.org/git/gcc.git", "DYNAMIC_LINK")
    yield "OpenSSL", openssl_version(cache), "Apache-2.0", "https://github.com/openssl/openssl", "DEPENDS_ON"


def package(name, version, licence, place, own=False):
    """A package of SPDX. Our own licence is known; that of others is what they declare."""
    return {
        "SPDXID": f"SPDXRef-{re.sub('[^A-Za-z0-9.]', '-', name)}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": f"git+{place}" if place else "NOASSERTION",
        "filesAnalyzed": False,
        "licenseDeclared": licence,
        "licenseConcluded": licence if own else "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }


def document(build):
    """The document, as JSON's values."""
    version = value_in([ROOT / "CMakeLists.txt"], r"^\s+VERSION (\d+\.\d+\.\d+)", "tutti")
    own = package("tutti", version, "BSD-3-Clause", None, own=True)
    packages, relationships = [own], [relation("SPDXRef-DOCUMENT", "DESCRIBES", own)]
    for name, number, licence, place, how in parts_of(build):
        packages.append(package(name, number, licence, place))
        relationships.append(relation(own["SPDXID"], how, packages[-1]))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"tutti-{version}",
        "documentNamespace": f"https://spdx.org/spdxdocs/tutti-{version}-{uuid.uuid4()}",
        "creationInfo": {"created": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": [f"Tool: sbom.py-{version}"]},
        "packages": packages,
        "relationships": relationships,
    }


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other["SPDXID"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="a build folder [build/release]")
    parser.add_argument("-o", dest="file", type=pathlib.Path, help="where the list goes [standard output]")
    args = parser.parse_args()
    if not (args.build / "CMakeCache.txt").is_file():
        parser.error(f"{args.build} is no build folder: it has no CMakeCache.txt")
    text = json.dumps(document(args.build), indent=2) + "\n"
    if args.file:
        args.file.write_text(text, encoding="utf-8")
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
