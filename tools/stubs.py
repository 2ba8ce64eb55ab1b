"""The stubs of the collectives, as overloads by `async_op` (overloads.py).

In bindings/python/tutti/_tutti.pyi: the collectives of faces.py. Which array a rank may leave out follows from the table of
kinds.

bindings/python/tutti/distributed/_overloads.pyi is whole from here: the functions of tutti.distributed that give a Work, whose
text is in MODULES. `tutti.distributed` takes them from it where types are checked, and from those modules where it runs.

made.py writes them. The test module_test.py looks that the stubs have what the bindings have.
"""

import ast
import textwrap

import faces
import overloads

STUBS = "bindings/python/tutti/_tutti.pyi"
FACE = "bindings/python/tutti/distributed/_overloads.pyi"
GIVES = ("Work | None", "Future | None")
MODULES = ("collectives", "coalesced", "multigpu", "p2p")

TYPES = {"op": "ReduceOp", "root": "int", "factor": "Factor", "timeout": "Timeout", "async_op": "bool",
         "counts": "Sequence[int] | None", "output_splits": "Sequence[int] | None",
         "input_splits": "Sequence[int] | None", "exclusive": "bool"}
DEFAULTS = {"op": "ReduceOp.SUM", "root": "0", "exclusive": "False", "async_op": "False"}


def absent(call, name):
    """Ranks other than the root give None."""
    if call.kind.layout == "same":
        return False
    return (call.kind.writes if name.startswith("output") else call.kind.reads) == "root"


def annotation(call, name):
    """The type of a parameter."""
    if name in TYPES:
        return TYPES[name]
    return ("Sequence[Array]" if name.endswith("s") else "Array") + (" | None" if absent(call, name) else "")


def method(call):
    """The stubs of a method."""
    names = [*call.arrays, *call.placed, *call.named, "timeout", "async_op"]
    given = [f"{name}: {annotation(call, name)}" + (f" = {DEFAULTS[name]}" if name in DEFAULTS else " = None" if place >=
             len(call.arrays) else "") for place, name in enumerate(names)]
    given.insert(len(call.arrays) + len(call.placed), "*")
    function = ast.parse(f"def {call.name}(self, {', '.join(given)}) -> Work | None: 0").body[0]
    return overloads.overloads(function, "    ", faces.python_doc(call))


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
    return (f'"""Made by tools/made.py --write: what a call gives, by `async_op`.\n\n'
            f"A process that is not in the group gets None in any case, after a warning; the types leave that out.\n"
            f'"""\n\n{"".join(imports)}\n__all__ = [\n{listed},\n]\n\n' + "\n".join(functions) + "\n" + "".join(also))


def _gives_later(node):
    """A public function whose result, a Work or a Future, is None where it has waited or is not in the group."""
    return not node.name.startswith("_") and ast.unparse(node.returns or ast.Constant(None)) in GIVES


def made(root):
    """Of made.py: the collectives among the stubs of the bindings, and _overloads.pyi."""
    if (root / STUBS).exists():
        stubs = "\n".join(map(method, faces.collectives(root)))
        yield STUBS, f"    # {faces.BEGIN}\n", f"\n{stubs}\n", f"    # {faces.END}\n", "its collectives are not those of the headers"
        yield FACE, None, face(root), None, "it is not what the modules beside it have"
