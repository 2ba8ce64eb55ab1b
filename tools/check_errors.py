#!/usr/bin/env python3
"""Checks that tests produce the error texts that the documentation shows.

    check_errors.py [--root folder]

Each phrase of tools/error-phrases.txt stands on the page that its section names and in a string of a
test source. Each message in the indented blocks of docs/reference/errors.md has one of these phrases.
"""

import argparse
import ast
import pathlib
import re
import sys

TABLE = "tools/error-phrases.txt"
PAGE = "docs/reference/errors.md"
FIRST_MESSAGE = "## The messages"
# Inputs of fuzzers and the tests of this tool assert no text of the library.
NOT_LOOKED_AT = ("tests/fuzz/", "tests/package/tools/")
# A line that has room for the first word of the next one ends a message.
WRAPPED = 100

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<end>[^(\s]*)\((?P<raw>.*?)\)(?P=end)"'
    r'|"(?P<plain>(?:\\.|[^"\\\n])*)"' r"|'(?:\\.|[^'\\\n])+'|(?P<space>\s+)|.", re.DOTALL)


def collapsed(text):
    return re.sub(r"\s+", " ", text).strip()


def cpp_strings(text):
    """The string literals, those that stand side by side as one."""
    strings = []
    joins = False
    for token in TOKEN.finditer(text):
        if token["space"] or token[0].startswith(("//", "/*")):
            continue
        literal = token["raw"] if token["raw"] is not None else token["plain"]
        if literal is None:
            joins = False
            continue
        if token["plain"] is not None:
            literal = re.sub(r"\\(.)", r"\1", literal)
        strings.append((strings.pop() if joins else "") + literal)
        joins = True
    return strings


def python_strings(text):
    """The string constants but for docstrings; patterns lose their backslashes."""
    nodes = list(ast.walk(ast.parse(text)))
    docs = {node.value for node in nodes
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    return [node.value.replace("\\", "") for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs]


def strings_of_tests(root):
    strings = []
    for path in sorted((root / "tests").rglob("*")):
        if path.relative_to(root).as_posix().startswith(NOT_LOOKED_AT):
            continue
        if path.suffix in {".cpp", ".hpp"}:
            strings += cpp_strings(path.read_text(encoding="utf-8"))
        elif path.suffix == ".py":
            strings += python_strings(path.read_text(encoding="utf-8"))
    return [collapsed(text) for text in strings]


def read_table(root):
    """(page, phrase) of every row."""
    rows = []
    page = None
    for line in (root / TABLE).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            page = line.strip("[]")
        elif line.strip() and not line.startswith("#"):
            rows.append((page, collapsed(line)))
    return rows


def messages_of(page):
    """(line number, text) of the messages in the indented blocks."""
    messages = []
    previous = None
    begun = False
    for number, line in enumerate(page.splitlines(), 1):
        begun = begun or line == FIRST_MESSAGE
        if not begun or not line.startswith("    "):
            previous = None
            continue
        text = line.strip()
        if previous is not None and len(previous) + 1 + len(text.split()[0]) > WRAPPED:
            messages[-1] = (messages[-1][0], f"{messages[-1][1]} {text}")
        else:
            messages.append((number, text))
        previous = line
    return messages


def check(root):
    faults = []
    rows = read_table(root)
    pages = {}
    strings = strings_of_tests(root)
    for page, phrase in rows:
        if page not in pages:
            pages[page] = collapsed((root / page).read_text(encoding="utf-8"))
        if phrase not in pages[page]:
            faults.append(f"{TABLE}: \"{phrase}\" does not stand in {page}")
        if not any(phrase in text for text in strings):
            faults.append(f"{TABLE}: no test expects \"{phrase}\" ({page})")
    if not rows:
        faults.append(f"{TABLE} holds no phrases")
    messages = messages_of((root / PAGE).read_text(encoding="utf-8"))
    if not messages:
        faults.append(f"{PAGE} shows no messages")
    for number, message in messages:
        if not any(phrase in message for page, phrase in rows if page == PAGE):
            faults.append(f"{PAGE}:{number}: \"{message}\" has no phrase in {TABLE}")
    return faults, len(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1])
    faults, phrases = check(parser.parse_args().root)
    for fault in faults:
        print(fault)
    print(f"{phrases} phrases of error texts: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
