#!/usr/bin/env python3
"""Checks every #include against tools/layers.toml, and its levels against ARCHITECTURE.md.

    check_layers.py [--root folder]
"""

import argparse
import pathlib
import re
import sys
import tomllib

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# A row of the table of modules: | `src/base` | 0 | ...
ROW = re.compile(r"^\| `src/([a-z/]+)` \| (\d+) \|", re.MULTILINE)
SUFFIXES = {".hpp", ".cpp", ".h", ".cc"}


class Layers:
    def __init__(self, table):
        self.vocabulary = set(table["vocabulary"])
        self.facade = table["facade"]
        self.facade_modules = set(table["facade_modules"])
        self.modules = table["modules"]
        self.outside = table["outside"]
        self.apps = table["apps"]
        self.everything = table["everything"]["folders"]
        self.foreign = table["foreign"]
        self.pure = table["pure"]

    def table_faults(self):
        """The table itself must point downwards."""
        for name, module in self.modules.items():
            for other in module["may"]:
                if other not in self.modules:
                    yield f"tools/layers.toml: {name} may include {other}, which is no module"
                elif self.modules[other]["level"] >= module["level"]:
                    yield f"tools/layers.toml: {name} may include {other}, which is not below it"

    def page_faults(self, page):
        """The table of modules in ARCHITECTURE.md has every module, with the same level."""
        told = {name: int(level) for name, level in ROW.findall(page)}
        for name in sorted(self.modules.keys() | told.keys()):
            level = self.modules[name]["level"] if name in self.modules else "none"
            if told.get(name, "none") != level:
                yield (f"ARCHITECTURE.md: src/{name} has level {told.get(name, 'none')}, "
                       f"tools/layers.toml says {level}")

    def module_of(self, path):
        """The longest module name that `path` (below src/) begins with."""
        names = [name for name in self.modules if path.startswith(name + "/")]
        return max(names, key=len, default=None)

    def top_of(self, path):
        """The folder outside src/ that `path` is in, as the table names it; else its first one."""
        return next((name for name in self.outside if path.startswith(name + "/")), path.split("/")[0])

    def is_facade(self, header):
        return any(header == name or (name.endswith("/") and header.startswith(name))
                   for name in self.facade)

    def faults(self, path, text):
        """Faults of one file; `path` is relative to the root."""
        for match in INCLUDE.finditer(text):
            style, header = match.groups()
            fault = self.fault(path, style, header)
            if fault:
                line = text.count("\n", 0, match.start(1)) + 1
                yield f"{path}:{line}: {fault}"

    def fault(self, path, style, header):
        top = self.top_of(path)
        foreign = self.foreign_fault(path, header)
        if foreign:
            return foreign
        if any(path.startswith(folder + "/") for folder in self.everything):
            return None
        if header.startswith("tutti/"):
            return self.public_fault(path, top, header.removeprefix("tutti/"))
        module = self.module_of(path.removeprefix("src/")) if top == "src" else None
        if module in self.pure["modules"]:
            for name in self.pure["forbidden"]:
                if header == name or (name.endswith("/") and header.startswith(name)):
                    return f"{module} is pure and may not include <{header}>"
        if header.startswith("apps/") and top in self.apps:
            target = self.top_of(header)
            return None if target in (top, *self.apps[top]) else f"{top} may not include {target} ({header})"
        target = self.module_of(header)
        if target is None or (style == "<" and top != "src"):
            return None
        return self.module_fault(path, top, module, target, header)

    def foreign_fault(self, path, header):
        for prefix, folders in self.foreign.items():
            if header.startswith(prefix) and not any(
                    path.startswith(folder + "/") for folder in folders + ["tests"]):
                return f"<{header}> belongs to {', '.join(folders)} only"
        return None

    def public_fault(self, path, top, header):
        if self.is_facade(header):
            if top == "include":
                own = path.removeprefix("include/tutti/")
                return None if self.is_facade(own) else f"vocabulary may not include {header}"
            if top == "src":
                module = self.module_of(path.removeprefix("src/"))
                if module not in self.facade_modules:
                    return f"{module or 'src'} may not include the facade header {header}"
            return None
        if header not in self.vocabulary:
            return f"<tutti/{header}> stands in no list of tools/layers.toml"
        return None

    def module_fault(self, path, top, module, target, header):
        if top == "include":
            return f"a public header may not include {header}"
        if top == "src":
            if module is None:
                return f"src/ itself may include public headers only, not {header}"
            if target != module and target not in self.modules[module]["may"]:
                return f"{module} may not include {target} ({header})"
            return None
        if target not in self.outside.get(top, []):
            return f"{top} may not include {target} ({header})"
        return None


def source_files(root):
    for top in ["include", "src", "apps", "bindings", "examples", "tests"]:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=default)
    args = parser.parse_args()

    with open(args.root / "tools" / "layers.toml", "rb") as file:
        layers = Layers(tomllib.load(file))
    faults = list(layers.table_faults())
    page = args.root / "ARCHITECTURE.md"
    faults += layers.page_faults(page.read_text(encoding="utf-8"))
    count = 0
    for path in source_files(args.root):
        name = path.relative_to(args.root).as_posix()
        if name.startswith("src/") and name.count("/") > 1 and not layers.module_of(name[4:]):
            faults.append(f"{name}: its folder is no module of tools/layers.toml")
        faults += layers.faults(name, path.read_text(encoding="utf-8"))
        count += 1
    print("\n".join(faults + [f"{count} files, {len(faults)} layer faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
