#!/usr/bin/env python3
"""The stubs of the collectives, as overloads by `async_op` (overloads.py).

    stubs.py            prints them; `tutti` must be importable (PYTHONPATH=build/dev/python)
    stubs.py --write    puts them into their files

In bindings/python/tutti/_tutti.pyi: names, parameters and docstrings of the bindings. A collective is a public method of
ProcessGroup with `async_op`. Which array a rank may leave out follows from the table of kinds (kinds.py).

bindings/python/tutti/distributed/_overloads.pyi is whole from here: the functions of tutti.distributed that give a Work, whose
text is in MODULES. `tutti.distributed` takes them from it where types are checked, and from those modules where it runs.

The test module_test.py looks that the files have these texts.
"""

import argparse
import ast
import pathlib
import re
import sys
import textwrap

import kinds
import overloads

STUBS = "bindings/python/tutti/_tutti.pyi"
BEGIN = "    # Made from the bindings by tools/stubs.py --write.\n"
END = "    # The end of what is made.\n"
FACE = "bindings/python/tutti/distributed/_overloads.pyi"
GIVES = ("Work | None", "Future | None")
MODULES = ("collectives", "coalesced", "multigpu", "p2p")

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


def method(name, doc, table):
    """The stubs of a method with that documentation, whose first line is its signature as the module tells it."""
    kind = next((row for row in sorted(table, key=lambda row: -len(row.name)) if name.startswith(row.name)), None)
    head, _, told = doc.partition("\n\n")
    text = re.sub(r"tutti\._tutti\.|<|>", "", head[head.index("(") + 1:head.rindex(") ->")])
    function = ast.parse(f"def {name}({text}) -> 'Work | None': 0").body[0]
    function.returns = ast.parse("Work | None", mode="eval").body
    for each in function.args.args + function.args.kwonlyargs:
        if each.arg != "self":
            each.annotation = ast.parse(annotation(kind, each.arg), mode="eval").body
    return overloads.overloads(function, "    ", told)


def made(root):
    """The text between the marks."""
    from tutti import _tutti
    table = [row for row in kinds.rows(root) if row.layout != "pair"]
    methods = {name: each.__doc__ for name, each in vars(_tutti.ProcessGroup).items()
               if not name.startswith("_") and "async_op" in (each.__doc__ or "").partition("\n")[0]}
    return "\n".join(method(name, doc, table) for name, doc in methods.items())


def stubs_with(text, root):
    """The stubs as they must be."""
    before, begin, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"stubs: {STUBS} has no place for the collectives")
    return f"{before}{BEGIN}\n{made(root)}\n{END}{behind}"


def face(root):
    """The text of _overloads.pyi."""
    functions = []
    imports = ["from collections.abc import Sequence\n", "from typing import Any, Literal, overload\n\n",
               "from tutti._times import Timeout\n", "from tutti.distributed.futures import Future\n",
               "from tutti.distributed.operators import Op, RedOpType\n",
               "from tutti.distributed.process_group import AnyGroup\n", "from tutti.distributed.work import Work\n"]
    names, also = [], []
    for module in MODULES:
        tree = ast.parse((root / FACE).with_name(f"{module}.py").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and _gives_later(node):
                functions.append(overloads.overloads(node, doc=ast.get_docstring(node)))
                names.append(node.name)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in names:
                also.append(f"{node.targets[0].id} = {node.value.id}\n")
                names.append(node.targets[0].id)
    told = ", ".join(f'"{name}"' for name in names)
    listed = textwrap.fill(told, overloads.WIDTH, initial_indent="    ", subsequent_indent="    ")
    return (f'"""Made by tools/stubs.py --write: what a call gives, by `async_op`.\n\n'
            f"A process that is not in the group gets None in any case, after a warning; the types leave that out.\n"
            f'"""\n\n{"".join(imports)}\n__all__ = [\n{listed},\n]\n\n' + "\n".join(functions) + "\n" + "".join(also))


def _gives_later(node):
    """A public function whose result, a Work or a Future, is None where it has waited or is not in the group."""
    return not node.name.startswith("_") and ast.unparse(node.returns or ast.Constant(None)) in GIVES


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    args = parser.parse_args()
    file = args.root / STUBS
    if args.write:
        file.write_text(stubs_with(file.read_text(encoding="utf-8"), args.root), encoding="utf-8")
        (args.root / FACE).write_text(face(args.root), encoding="utf-8")
    else:
        print(made(args.root))
        print(face(args.root))
    return 0


if __name__ == "__main__":
    sys.exit(main())
