#!/usr/bin/env python3
"""The collectives in python/tutti/_tutti.pyi, from the bindings: names, parameters and docstrings.

    stubs.py            prints them; `tutti` must be importable (PYTHONPATH=build/dev/python)
    stubs.py --write    puts them into the stubs

A collective is a method of ProcessGroup with `async_op`. Which array a rank may leave out follows from the
table of kinds (kinds.py). The test module_test.py looks that the stubs have this text.
"""

import argparse
import ast
import pathlib
import re
import sys
import textwrap

import kinds

STUBS = "python/tutti/_tutti.pyi"
BEGIN = "    # Made from the bindings by tools/stubs.py --write.\n"
END = "    # The end of what is made.\n"
WIDTH = 100

TYPES = {"op": "ReduceOp", "root": "int", "factor": "Factor", "timeout": "Timeout", "async_op": "bool",
         "counts": "Sequence[int] | None", "output_splits": "Sequence[int] | None",
         "input_splits": "Sequence[int] | None", "exclusive": "bool"}


def absent(kind, name):
    """Ranks other than the root give None."""
    if kind is None or kind.layout == "same":
        return False
    return (kind.writes if name.startswith("output") else kind.reads) == "root"


def annotation(kind, name):
    """The type of a parameter."""
    if name in TYPES:
        return TYPES[name]
    return ("Sequence[Array]" if name.endswith("s") else "Array") + (" | None" if absent(kind, name) else "")


def parameters(kind, text):
    """Of a signature as the module tells it: each parameter with its type."""
    tree = ast.parse("def f(" + re.sub(r"tutti\._tutti\.|<|>", "", text) + "): 0").body[0].args
    defaults = [None] * (len(tree.args) - len(tree.defaults)) + tree.defaults
    shown = []
    for argument, default in [*zip(tree.args, defaults), ("*", None), *zip(tree.kwonlyargs, tree.kw_defaults)]:
        if argument == "*":
            shown.append("*")
        elif argument.arg == "self":
            shown.append("self")
        else:
            end = f" = {ast.unparse(default)}" if default is not None else ""
            shown.append(f"{argument.arg}: {annotation(kind, argument.arg)}{end}")
    return shown


def method(name, doc, table):
    """The stub of a method with that documentation."""
    kind = next((row for row in sorted(table, key=lambda row: -len(row.name)) if name.startswith(row.name)), None)
    signature, _, told = doc.partition("\n\n")
    given = parameters(kind, signature[signature.index("(") + 1:signature.rindex(") ->")])
    head = f"    def {name}("
    lines = textwrap.wrap(", ".join(word.replace(" ", "\0") for word in given) + ")\0->\0Work\0|\0None:", WIDTH,
                          initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False,
                          break_on_hyphens=False)
    body = textwrap.wrap(f'"""{" ".join(told.split())}"""', WIDTH, initial_indent=" " * 8,
                         subsequent_indent=" " * 8)
    return "\n".join(lines).replace("\0", " ") + "\n" + "\n".join(body) + "\n"


def made(root):
    """The text between the marks."""
    from tutti import _tutti
    table = [row for row in kinds.rows(root) if row.layout != "pair"]
    methods = {name: each.__doc__ for name, each in vars(_tutti.ProcessGroup).items()
               if "async_op" in (each.__doc__ or "").partition("\n")[0]}
    return "\n".join(method(name, doc, table) for name, doc in methods.items())


def stubs_with(text, root):
    """The stubs as they must be."""
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"stubs: {STUBS} has no place for the collectives")
    return f"{before}{BEGIN}\n{made(root)}\n{END}{behind}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    file = args.root / STUBS
    if args.write:
        file.write_text(stubs_with(file.read_text(encoding="utf-8"), args.root), encoding="utf-8")
    else:
        print(made(args.root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
