"""No module of the package imports another one that needs it, not even inside a function."""

import ast
import pathlib

BINDINGS = pathlib.Path(__file__).parents[3] / "bindings"
# Where the modules of a package are, by the name of what is in the folder.
PACKAGE = {"tutti": BINDINGS / "python/tutti", "tutti.torch": BINDINGS / "torch/tutti/torch"}


def modules_of(package):
    """Name and file of each module; the compiled one by its stubs."""
    files = {}
    for name, folder in package.items():
        for file in sorted(folder.rglob("*.py*")):
            if file.suffix in (".py", ".pyi"):
                parts = (name, *file.relative_to(folder).with_suffix("").parts)
                files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


def names_in(node, name, file):
    """What an import names, in full. `from a import b` names a.b, which may be a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = name.split(".")[:len(name.split(".")) - node.level + (file.stem == "__init__")] if node.level else []
    base = ".".join(above + ([node.module] if node.module else []))
    return [f"{base}.{alias.name}" for alias in node.names]


def imports_of(name, files):
    """The modules of the package that this one imports, anywhere in its text."""
    found = set()
    for node in ast.walk(ast.parse(files[name].read_text())):
        for named in names_in(node, name, files[name]):
            while named and named not in files:
                named = named.rpartition(".")[0]
            found.add(named)
    return found - {"", name}


def circles(package):
    """Sets of modules that reach each other."""
    files = modules_of(package)
    imports = {name: imports_of(name, files) for name in files}
    reached = {}
    for name in files:
        reached[name], left = set(), [name]
        while left:
            new = imports[left.pop()] - reached[name]
            reached[name] |= new
            left += new
    return sorted({tuple(sorted(other for other in reached[name] if name in reached[other]))
                   for name in files if name in reached[name]})


def test_modules_import_in_no_circle():
    assert circles(PACKAGE) == []


def test_circles_are_found(tmp_path):
    package = tmp_path / "p"
    (package / "q").mkdir(parents=True)
    texts = {"__init__": "from p import a", "a": "import p.b", "b": "def f():\n  from . import c", "c": "from .q import d",
             "q/__init__": "", "q/d": "if 0:\n  from ..a import x", "e": "from p import c, a"}
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    assert circles({"p": package}) == [("p.a", "p.b", "p.c", "p.q.d")]
    (package / "q" / "d.py").write_text("from .. import e")
    (package / "b.py").write_text("from . import x")
    assert circles({"p": package}) == [("p", "p.a", "p.b"), ("p.c", "p.e", "p.q.d")]
