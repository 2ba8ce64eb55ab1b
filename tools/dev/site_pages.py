"""Gathers in build/docs what the site is made of: the pages of the tree, and pages for headers and modules."""

import ast
import json
import pathlib
import re
import shutil
import sys
import tomllib

from console import BUILD, ROOT

sys.path.insert(0, str(ROOT / "tools"))
import tree  # noqa: E402

SOURCE = BUILD / "docs" / "source"
PACKAGES = BUILD / "docs" / "python"
PICTURES = {".gif", ".jpg", ".png", ".svg"}
HEADERS = ROOT / "include" / "tutti"
# Modules with a page, in this order: what a program imports. Other modules hold the parts of these.
MODULES = ["tutti", "tutti.distributed", "tutti.torch", "tutti.torch.nn", "tutti.multiprocessing", "tutti.rank0", "tutti.errors",
           "tutti.log", "tutti.pytest_plugin", "tutti.jax", "tutti.lightgbm", "tutti.ray"]


class Pages:
    """The folder of pages. A page that has not changed keeps its time, so that it is not built again."""

    def __init__(self):
        self.names = set()

    def write(self, name, text):
        path = SOURCE / name
        self.names.add(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")

    def copy(self, name):
        path = SOURCE / name
        self.names.add(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, path)

    def remove_others(self):
        for path in SOURCE.rglob("*"):
            if path.is_file() and path not in self.names:
                path.unlink()


def notebook(text):
    """A notebook as a page of Markdown, with the outputs that are stored in it."""
    parts = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/svg+xml" in data:
                parts.append("```{raw} html\n" + "".join(data["image/svg+xml"]) + "\n```")
            else:
                parts.append("```text\n" + "".join(output.get("text", data.get("text/plain", ""))).rstrip() + "\n```")
    return "\n\n".join(parts) + "\n"


def title(text, underline):
    return f"{text}\n{underline * len(text)}\n\n"


def toctree(entries):
    return ".. toctree::\n   :maxdepth: 1\n\n" + "".join(f"   {entry}\n" for entry in entries)


def api_of_headers(pages):
    """A page for each header of C++, one for that of C."""
    folder = "docs/reference/api"
    names = sorted(path.relative_to(HEADERS).with_suffix("").as_posix() for path in HEADERS.rglob("*.hpp"))
    names.sort(key=lambda name: "/" in name)
    shown = [name for name in names if name not in ("tutti", "export")]  # these two declare nothing for a program
    for name in shown:
        pages.write(f"{folder}/cpp/{name}.rst", title(f"<tutti/{name}.hpp>", "=") + f".. doxygenfile:: {pathlib.PurePath(name).name}.hpp\n"
                    "   :sections: briefdescription detaileddescription innerclass innernamespace define enum func typedef var "
                    "public-type public-func public-attrib public-static-func public-static-attrib friend user-defined\n")
    pages.write(f"{folder}/cpp/index.rst", title("C++ interface", "=") +
                "One page for each header; ``#include <tutti/tutti.hpp>`` takes all but those that name another library.\n\n" + toctree(f"{name}.hpp <{name}>" for name in shown))
    pages.write(f"{folder}/c.rst", title("C interface: <tutti/c.h>", "=") + ".. doxygenfile:: c.h\n")


def api_of_modules(pages):
    """A page for each module of Python that a program imports."""
    folder = "docs/reference/api/python"
    for name in MODULES:
        pages.write(f"{folder}/{name}.rst", title(name, "=") +
                    f".. autoapimodule:: {name}\n   :members:\n   :imported-members:\n   :undoc-members:\n")
    pages.write(f"{folder}/index.rst", title("Python interface", "=") + toctree(MODULES))


def public_names(path):
    """The literal `__all__` of a module."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets) == "__all__":
            return ast.literal_eval(node.value)
    return []


def as_checkers_see_it(path):
    """AutoAPI reads no branch on TYPE_CHECKING, and of `__all__` only a literal list."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    body = []
    for node in module.body:
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            body += node.body
        elif isinstance(node, ast.AugAssign) and ast.unparse(node.target) == "__all__":
            for name in re.findall(r"(\w+)\.__all__", ast.unparse(node.value)):
                names = public_names(path.parent / f"{name.lstrip('_')}.py")
                body.append(ast.parse(f"__all__ += {names!r}").body[0])
        else:
            body.append(node)
    module.body = body
    path.write_text(ast.unparse(module), encoding="utf-8")


def packages():
    """The packages of Python as a wheel lays them out."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for place, folder in settings["tool"]["scikit-build"]["wheel"]["packages"].items():
        shutil.copytree(ROOT / folder, PACKAGES / place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for path in PACKAGES.rglob("__init__.py"):
        as_checkers_see_it(path)


def gather():
    pages = Pages()
    for name in tree.files(ROOT):
        path = ROOT / name
        if name == "docs/index.md":
            pages.write("index.md", path.read_text(encoding="utf-8"))
        elif path.suffix == ".md" and not name.startswith("."):
            pages.copy(name)
        elif path.suffix in PICTURES:
            pages.copy(name)
        elif path.suffix == ".ipynb":
            pages.write(name.removesuffix(".ipynb") + ".md", notebook(path.read_text(encoding="utf-8")))
    api_of_headers(pages)
    api_of_modules(pages)
    pages.remove_others()
    packages()
