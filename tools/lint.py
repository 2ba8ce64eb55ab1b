#!/usr/bin/env python3
"""Checks rules that the compiler and the formatter do not know.

    lint.py [--root folder]

Over all files of the repository: nothing that belongs to one machine, no open ends, no line of a page above 120
columns. Sources: half of them have at most 90 lines, and those above 400 stand in tools/layers.toml (lengths),
each with the reason why its class is one. In C++: `#pragma once`, no `using namespace` in headers, no printing, ending or
sleeping in the library, a comment beside every memory order that is weaker than sequential.
"""

import argparse
import pathlib
import re
import statistics
import sys
import tomllib

import tree

SOURCES = re.compile(r"(?:include|src|apps|bindings|integrations)/.*\.(?:hpp|cpp|h|cu|py)$")
LONG, MEDIAN = 400, 90  # lines of a source
COLUMNS = 120  # of a page
# A table, a link or word that cannot be broken, a picture in a comment of HTML.
UNBROKEN = re.compile(r"\||\S+$|<")
TEXT_SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".inc", ".py", ".pyi", ".md", ".txt", ".toml", ".cmake", ".json",
                 ".sh", ".in", ".yml", ".yaml", ".sbatch", ""}
# What stands in no file of ours: places of one machine, and work that is not finished.
FORBIDDEN = [
    (re.compile(r"(?<![\w.])/(?:root|home)/"), "a path of one machine"),
    (re.compile(r"(?<![\w.])/Users/"), "a path of one machine"),
    (re.compile(r"\b(?:TODO|FIXME|XXX)\b"), "an open end"),
    (re.compile(r"\b(?:its|their) kin\b"), "a riddle: name the others that are meant"),
]
OWN_RULES = {"tools/lint.py"}  # this file names what it forbids

LIBRARY = [
    (re.compile(r"\bstd::(?:cout|cerr|clog)\b|\bf?printf\s*\(|\bputs\s*\(|\bfmt::print\s*\("),
     "the library does not print: it calls the log sink"),
    (re.compile(r"\bstd::(?:abort|exit|_Exit|quick_exit|terminate)\s*\("
                r"|(?<!\w)::(?:abort|_?exit)\s*\("
                r"|(?<![\w.>:])(?:_?exit\s*\(|abort\s*\(\s*\))"),
     "the library does not end the process"),
    (re.compile(r"\b(?:sleep_for|sleep_until|usleep|nanosleep)\s*\("),
     "the library does not sleep: it waits for an event, with a deadline"),
]
WEAK_ORDER = re.compile(r"\bmemory_order(?:::|_)(?:relaxed|acquire|release|acq_rel|consume)\b")


def texts(root):
    for name in tree.files(root):
        if (root / name).suffix in TEXT_SUFFIXES:
            yield name, (root / name).read_text(encoding="utf-8", errors="replace").splitlines()


def faults_of_lengths(lengths, long_files, most):
    """`lengths`: lines of each source."""
    for name in sorted(lengths.keys() | long_files.keys()):
        if lengths.get(name, 0) > LONG and name not in long_files:
            yield f"{name}: {lengths[name]} lines: has its class one responsibility? tools/layers.toml says why a file is above {LONG}"
        if name in long_files and lengths.get(name, 0) <= LONG:
            yield f"tools/layers.toml: {name} is not above {LONG} lines"
    if len(long_files) > most:
        yield f"tools/layers.toml: {len(long_files)} files above {LONG} lines, at most {most}"
    if lengths and statistics.median(lengths.values()) > MEDIAN:
        yield f"half of the sources have more than {MEDIAN} lines"


def faults_of_page(name, lines):
    code = False
    for number, line in enumerate(lines, 1):
        code ^= line.lstrip().startswith("```")
        if len(line) > COLUMNS and not code and not line.startswith("    ") and not UNBROKEN.match(line.lstrip(" -*")):
            yield f"{name}:{number}: {len(line)} columns, at most {COLUMNS}"


def faults_of_any(name, lines):
    if name in OWN_RULES:
        return
    for number, line in enumerate(lines, 1):
        for pattern, what in FORBIDDEN:
            if pattern.search(line):
                yield f"{name}:{number}: {what}: {line.strip()[:80]}"


def without_comment(line):
    return re.sub(r"//.*", "", line)


def has_comment_near(lines, index):
    """A comment on the line, in the statement above it, or in the comment block above that."""
    for at in range(index, max(-1, index - 12), -1):
        text = lines[at].strip()
        if "//" in text:
            return True
        if at < index and (not text or text in ("}", "};")):
            return False
    return False


def faults_of_cpp(name, lines):
    header = name.endswith(".hpp")
    if header and not any(line.strip() == "#pragma once" for line in lines):
        yield f"{name}: no #pragma once"
    library = name.startswith(("src/", "include/"))
    for number, line in enumerate(lines, 1):
        code = without_comment(line)
        if len(line) > 100 and line.lstrip().startswith("//"):  # clang-format leaves comments as they are
            yield f"{name}:{number}: a comment of {len(line)} columns, at most 100"
        if header and re.search(r"\busing namespace\b", code):
            yield f"{name}:{number}: using namespace in a header"
        if not library:
            continue
        # A forked child ends with _exit; the comment beside it says that it is one.
        # So does a process that is in its exit handlers and must not stay there.
        child = re.search(r"\b_exit\(.*//.*\b(?:child|exits)\b", line)
        for pattern, what in LIBRARY:
            if pattern.search(code) and not child:
                yield f"{name}:{number}: {what}"
        if WEAK_ORDER.search(code) and not has_comment_near(lines, number - 1):
            yield f"{name}:{number}: a weak memory order without a comment that names its partner"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=default)
    args = parser.parse_args()
    with open(args.root / "tools" / "layers.toml", "rb") as file:
        table = tomllib.load(file)
    faults, count, lengths = [], 0, {}
    for name, lines in texts(args.root):
        count += 1
        faults += faults_of_any(name, lines)
        if SOURCES.match(name):
            lengths[name] = len(lines)
        if name.endswith(".md") and ".zh-" not in name:  # Chinese has no blanks to break at
            faults += faults_of_page(name, lines)
        if name.endswith((".hpp", ".cpp")):
            faults += faults_of_cpp(name, lines)
    faults += faults_of_lengths(lengths, table["lengths"]["files"], table["lengths"]["most"])
    print("\n".join(faults + [f"{count} files, {len(faults)} lint faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
