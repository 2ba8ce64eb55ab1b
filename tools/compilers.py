"""The compilers and standard libraries with which tutti is tried (./dev test full compilers), and two tables of
docs/design/dependencies.md: these, and the oldest versions of other things that the build takes."""

import dataclasses
import re

PAGE = "docs/design/dependencies.md"
BEGIN = "<!-- table: compilers -->"
BEGIN_OLDEST = "<!-- table: oldest versions -->"
END = "<!-- end of table -->"

STANDARDS = ("20", "23")
# Where the build asks for a version.
OLDEST = (("CMakeLists.txt", r"^(cmake)_minimum_required\(VERSION ([\d.]+)"),
          ("cmake/TuttiDependencies.cmake", r"find_package\((\w+) ([\d.]+)"),
          ("pyproject.toml", r'(?m)^requires-(python) = ">=([\d.]+)'),
          ("pyproject.toml", r'"(scikit-build-core|nanobind)>=([\d.]+)'))
OLDEST_CMAKE = "3.22"
WITH_OLDEST_CMAKE = "gcc-12"


@dataclasses.dataclass(frozen=True)
class Compiler:
    """One compiler with one standard library."""

    name: str  # of the part of ./dev test full
    maker: str
    version: str
    c: str
    cxx: str
    library: str
    last_run: str  # by hand

    @property
    def libcxx(self):
        """The major version of libc++ that it uses; None: it uses libstdc++."""
        return self.library.removeprefix("libc++ ").partition(".")[0] if self.library.startswith("libc++") else None


COMPILERS = (
    Compiler("gcc-12", "GCC", "12.2.0", "gcc-12", "g++-12", "libstdc++ 12.2.0", "2026-11-30"),
    Compiler("clang-16", "clang", "16.0.6", "clang-16", "clang++-16", "libstdc++ 12.2.0", "2026-11-30"),
    Compiler("clang-16-libc++", "clang", "16.0.6", "clang-16", "clang++-16", "libc++ 16.0.6", "2026-11-30"),
    Compiler("clang-19", "clang", "19.1.7", "clang-19", "clang++-19", "libstdc++ 12.2.0", "2026-11-30"),
    Compiler("clang-19-libc++", "clang", "19.1.7", "clang-19", "clang++-19", "libc++ 19.1.7", "2026-11-30"),
)


def table():
    standards = ", ".join(f"C++{standard}" for standard in STANDARDS)
    lines = ["| compiler | standard library | the library and its programs | headers, the consumer | last run by hand |",
             "|---|---|---|---|---|"]
    lines += [f"| {one.maker} {one.version} | {one.library} | C++{STANDARDS[0]} | {standards} | {one.last_run} |" for one in COMPILERS]
    return "\n".join(lines)


def oldest(root):
    rows = [(name, version, file) for file, pattern in OLDEST
            for name, version in re.findall(pattern, (root / file).read_text(encoding="utf-8"))]
    return "\n".join(["| what | version | where the build asks for it |", "|---|---|---|",
                      *(f"| {name} | {version} | `{file}` |" for name, version, file in rows)])


def made(root):
    """Of made.py."""
    if (root / PAGE).exists():
        yield PAGE, BEGIN, f"\n{table()}\n", END, "its table of compilers is not tools/compilers.py"
        yield PAGE, BEGIN_OLDEST, f"\n{oldest(root)}\n", END, "its table of the oldest versions is not what the build asks for"
