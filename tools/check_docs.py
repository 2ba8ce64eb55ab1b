#!/usr/bin/env python3
"""Checks that what people need to know is written down.

    check_docs.py [--root folder]

Modules, classes and functions of the Python package have a docstring, its stubs too (not: names that
begin with _, what a class inherits it from, setters, and pytest's hooks).
Public classes, structs, enums and functions in include/tutti/ have a /// comment (it speaks for all
declarations down to the next empty line; accessors with their body in place need none); every
environment variable TUTTI_... that the code reads stands in docs/reference/configuration.md, and nothing else
does; every setting is a field of Config with a row in that page's table, and the library reads none
past it; the variables by which ranks meet stand in the one list of them, and those of other launchers on
that page; the settings that all ranks must have alike are the ones that pages name; links between
pages lead somewhere; the tables and faces that are made of the code are what it declares (made.py); the glossary
has at most 40 terms, in order, each with a place that is there; CITATION.cff and CHANGELOG.md have the version
of CMakeLists.txt.
"""

import argparse
import ast
import pathlib
import re
import sys

import kinds
import made
import promises

SUFFIXES = {".hpp", ".cpp", ".py"}
CODE_FOLDERS = ["include", "src", "apps", "bindings", "examples", "integrations"]
VARIABLE = re.compile(r'"(TUTTI_[A-Z0-9_]+)"')
ROW = re.compile(r"^\|\s*`(TUTTI_[A-Z0-9_]+)`\s*\|\s*(?:`(\w+)`)?", re.MULTILINE)
CONFIG = ("include/tutti/config.hpp", "src/base/config.cpp")
FIELD = re.compile(r"^  (?!using|static|enum|struct|\[\[)[\w:<>]+ (\w+)(?: = [^;()]*(?:\([^;]*\))?)?;",
                   re.MULTILINE)
# Variables of a job, by which processes find each other, are read where they meet.
RENDEZVOUS = "src/rendezvous/environment.cpp"
RENDEZVOUS_FOLDER = "src/rendezvous"
# Stores need a secret, too, so what says it is read below that folder.
SECRETS = "src/store/job_secret.cpp"
# Where libraries are looked for, before there is a world that has settings.
LIBRARIES = ("src/group/plugins.cpp", "src/cuda/library.cpp", "src/backend/mpi/library.cpp", "src/backend/nccl/library.cpp")
RENDEZVOUS_LIST = re.compile(r"kRendezvousVariables = \{([^}]*)\}")
OTHERS = re.compile(r'"((?:OMPI|PMIX?|MPI(?!_(?:THREAD_|[A-Z][a-z]))|SLURM|TORCH|GLOO|NCCL)_[A-Za-z0-9_]+)"')
AGREED = "src/base/agreed_settings.hpp"
AGREED_PAGES = ("docs/reference/errors.md", "docs/design/fingerprint.md")
AGREED_ROW = re.compile(r"^\|\s*`(TUTTI_[A-Z0-9_]+)`\s*\|.*\|\s*yes, checked\s*\|$", re.MULTILINE)
GETENV = re.compile(r'\bgetenv\s*\(\s*"(TUTTI_[A-Z0-9_]+)"')
# A row of the glossary: a term, its meaning, a path.
TERM = re.compile(r"^\| ([^|]+) \| [^|]+ \| `([^`|]+)` \|$", re.MULTILINE)
MAX_TERMS = 40
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")

TYPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:class|struct|enum class)\s+(?:\[\[\w+\]\]\s*)?(\w+)")
# A declaration that begins a line: a type, a name, an opening parenthesis.
FUNCTION = re.compile(
    r"^(?!(?:return|using|static_assert|namespace|friend|public|private|protected|if|for|while"
    r"|switch|else|case|throw|delete|new|requires|explicit operator)\b)"
    r"(?:\[\[\w+\]\]\s*)*(?:[\w:<>,&*\s\[\]]+?[\s&*])(?P<name>~?\w+|operator\S+?)\s*\(")
# `int size() const noexcept { return size_; }` says what a comment could say.
ACCESSOR = re.compile(r"\(\)\s*(const)?\s*&{0,2}\s*(noexcept)?\s*\{( return .*; \})?$")


def code_only(line):
    """The line without strings and comments."""
    return re.sub(r"//.*", "", re.sub(r'"(?:\\.|[^"\\])*"', '""', line))


class HeaderScan:
    """Walks over one formatted header and finds public declarations without a comment.

    It relies on the formatter: one declaration begins per line, `{` ends the line of a scope.
    """

    def __init__(self, name):
        self.name = name
        self.scopes = []  # (kind, public) with kind namespace, type or body
        self.documented = False
        self.pending = ""  # a declaration over several lines, from its first line on
        self.faults = []

    def visible(self):
        return all(kind != "body" and public for kind, public, _ in self.scopes)

    def line(self, number, text):
        stripped = text.strip()
        if stripped.startswith("///"):
            self.documented = True
            return
        code = code_only(text).strip()
        if not code or code.startswith("#"):
            if not stripped:
                self.documented = False
            return
        if re.fullmatch(r"(public|protected|private):", code):
            kind, _, name = self.scopes[-1]
            self.scopes[-1] = (kind, code == "public:", name)
            self.documented = False
            return
        if not self.pending or re.fullmatch(r"\s*template\s*<.*>(\s*requires.*)?", self.pending):
            self.start(number, code, text)
        self.pending += " " + code
        self.braces(code)
        if re.search(r"[;{}]\s*$", code):
            self.pending = ""
            # A line that opens a scope has its comment to itself.
            self.documented = self.documented and not code.endswith("{")

    def start(self, number, code, text):
        if not self.visible() or self.documented or "///<" in text:
            return
        # The declaration behind `template <...>` may begin on the next line; `pending` has it.
        # A forward declaration needs no comment; `= default` and `= delete` say it all.
        found = TYPE.match(code)
        if found and not code.endswith(";"):
            self.faults.append(f"{self.name}:{number}: {found.group(1)} has no /// comment")
            return
        found = FUNCTION.match(code)
        if found and not re.search(r"=\s*(default|delete)\s*;", code) and not ACCESSOR.search(code):
            self.faults.append(f"{self.name}:{number}: {found.group('name')} has no /// comment")

    def braces(self, code):
        for at, sign in enumerate(code):
            if sign == "{":
                head = (self.pending + " ")[: len(self.pending) - len(code) + at]
                self.scopes.append(self.scope_of(head))
            elif sign == "}" and self.scopes:
                self.scopes.pop()

    def scope_of(self, head):
        head = head.strip()
        if re.match(r"(inline\s+)?namespace\b", head):
            hidden = re.search(r"\b(detail|internal)\b", head) or head == "namespace"
            return ("namespace", not hidden, head)
        found = re.match(r"(template\s*<.*>\s*)?(class|struct|union)\b(?!.*\()", head)
        if found:
            return ("type", found.group(2) != "class", head)
        return ("body", False, head)


def undocumented(root):
    for path in sorted((root / "include").rglob("*.hpp")):
        scan = HeaderScan(path.relative_to(root).as_posix())
        for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            scan.line(number, text)
        yield from scan.faults


def is_setter(node):
    return any(isinstance(each, ast.Attribute) and each.attr in ("setter", "deleter")
               for each in getattr(node, "decorator_list", []))


def is_overload(node):
    return any(isinstance(each, ast.Name) and each.id == "overload" for each in node.decorator_list)


def undocumented_in(where, body, prefix, inherited, classes):
    """Classes and functions of a body without a docstring; `inherited`: names that a base class documents. Of overloads
    the first one has it."""
    overloaded = set()
    for node in body:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        if node.name.startswith(("_", "pytest_")) or is_setter(node):
            continue
        if is_overload(node):
            if node.name in overloaded:
                continue
            overloaded.add(node.name)
        if not ast.get_docstring(node) and node.name not in inherited:
            yield f"{where}:{node.lineno}: {prefix}{node.name} has no docstring"
        if isinstance(node, ast.ClassDef):
            bases = [classes[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in classes]
            above = set().union(*(documented for documented in bases))
            yield from undocumented_in(where, node.body, f"{node.name}.", above, classes)
            classes[node.name] = above | {each.name for each in node.body
                                          if isinstance(each, ast.FunctionDef) and ast.get_docstring(each)}


def undocumented_python(root):
    folders = [root / "bindings/python/tutti", root / "bindings/torch/tutti", *root.glob("integrations/*/tutti")]
    for path in sorted(path for folder in folders for path in folder.rglob("*.py*")):
        if path.suffix not in (".py", ".pyi"):
            continue
        where = path.relative_to(root).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            yield f"{where}: the module has no docstring"
        yield from undocumented_in(where, tree.body, "", set(), {})


def unlisted_variables(root):
    page = root / "docs/reference/configuration.md"
    known = page.read_text(encoding="utf-8") if page.exists() else ""
    seen = {}
    for folder in CODE_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                for name in VARIABLE.findall(path.read_text(encoding="utf-8")):
                    seen.setdefault(name, path.relative_to(root).as_posix())
    for name, where in sorted(seen.items()):
        if not re.search(rf"\b{name}\b", known):
            yield f"{where}: {name} does not stand in docs/reference/configuration.md"
    for name, _ in ROW.findall(known):
        if name not in seen:
            yield f"docs/reference/configuration.md: nothing reads {name}"


def settings_outside_config(root):
    for folder in ("include", "src"):
        for path in sorted((root / folder).rglob("*")):
            where = path.relative_to(root).as_posix()
            if path.suffix not in SUFFIXES or where in (*CONFIG, RENDEZVOUS, *LIBRARIES):
                continue
            for name in GETENV.findall(path.read_text(encoding="utf-8")):
                yield f"{where}: reads {name}; settings are fields of Config, read in {CONFIG[1]}"
    header, reader = (root / name for name in CONFIG)
    page = root / "docs/reference/configuration.md"
    if not (header.exists() and reader.exists() and page.exists()):
        return
    text = header.read_text(encoding="utf-8")
    fields = set(FIELD.findall(text))
    rows = dict(ROW.findall(page.read_text(encoding="utf-8")))
    read = set(VARIABLE.findall(reader.read_text(encoding="utf-8")))
    for name in sorted(read):
        if rows.get(name, "") not in fields:
            yield f"docs/reference/configuration.md: {name} has no row that names its field of Config"
        if not re.search(rf"///.*\b{name}\b", text):
            yield f"{CONFIG[0]}: no field says that {name} gives it"
    for field in sorted(fields - {rows[name] for name in read & set(rows)}):
        yield f"docs/reference/configuration.md: no variable for Config's field {field}"


def rendezvous_variables(root):
    """One list of the variables of ours that the rendezvous reads; `tutti doctor` goes by it, too."""
    header = root / RENDEZVOUS.replace(".cpp", ".hpp")
    if not header.exists():
        return
    text = header.read_text(encoding="utf-8")
    found = RENDEZVOUS_LIST.search(text)
    listed = set(VARIABLE.findall(found.group(1))) if found else set()
    settings = set(VARIABLE.findall((root / CONFIG[1]).read_text(encoding="utf-8")))
    read = set()
    secrets = [root / SECRETS] if (root / SECRETS).exists() else []
    for path in sorted((root / RENDEZVOUS_FOLDER).glob("*.[ch]pp")) + secrets:
        code = path.read_text(encoding="utf-8")
        if path == header:
            code = code.replace(found.group(0), "") if found else code
        for name in VARIABLE.findall(code):
            read.add(name)
            if name not in listed | settings:
                where = path.relative_to(root).as_posix()
                yield f"{where}: {name} does not stand in kRendezvousVariables ({RENDEZVOUS_FOLDER})"
    for name in sorted(listed - read):
        yield f"{header.relative_to(root).as_posix()}: nothing in {RENDEZVOUS_FOLDER} reads {name}"


def unlisted_variables_of_others(root):
    page = root / "docs/reference/configuration.md"
    known = page.read_text(encoding="utf-8") if page.exists() else ""
    for folder in ("src", "bindings/python", "integrations"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            for name in OTHERS.findall(path.read_text(encoding="utf-8")):
                if not re.search(rf"\b{name}\b", known):
                    where = path.relative_to(root).as_posix()
                    yield f"{where}: {name} does not stand in docs/reference/configuration.md"


def agreed_settings(root):
    """The settings that must be equal on all ranks are the same in messages, pages and the table."""
    header = root / AGREED
    if not header.exists():
        return
    names = re.findall(r"TUTTI_[A-Z0-9_]+", header.read_text(encoding="utf-8").split("kAgreedSettings", 1)[1])
    table = AGREED_ROW.findall((root / "docs/reference/configuration.md").read_text(encoding="utf-8"))
    if set(table) != set(names):
        yield (f"docs/reference/configuration.md: checked to be equal are {', '.join(sorted(table))}, but {AGREED} "
               f"says {', '.join(sorted(names))}")
    quoted = re.search(r'"([^"]*)"', header.read_text(encoding="utf-8").split("kAgreedSettings", 1)[1])
    for page in AGREED_PAGES:
        text = re.sub(r"\s+", " ", (root / page).read_text(encoding="utf-8"))
        for name in names:
            if name not in text:
                yield f"{page}: does not name {name}, which all ranks must have alike"
        if page == AGREED_PAGES[0] and quoted.group(1) not in text:
            yield f"{page}: no message says \"{quoted.group(1)}\""


def glossary_faults(root):
    """Terms of docs/reference/glossary.md: not too many, in order, each with the file that it lives in."""
    page = root / "docs/reference/glossary.md"
    if not page.exists():
        return
    rows = TERM.findall(page.read_text(encoding="utf-8"))
    terms = [term.strip("`").lower() for term, _ in rows]
    if len(terms) > MAX_TERMS:
        yield f"docs/reference/glossary.md: {len(terms)} terms, at most {MAX_TERMS}"
    for before, after in zip(terms, terms[1:]):
        if after <= before:
            yield f"docs/reference/glossary.md: {after} stands behind {before}"
    for term, place in rows:
        if not (root / place).exists() and not (root / "src" / place).exists():
            yield f"docs/reference/glossary.md: {term} lives in {place}, which is not there"


# Projects that ask for the library by its version.
FINDERS = ("bindings/torch", "bindings/torch/cpp", "tests/package/consumer/project", "tests/package/consumer/ranks")


def version_faults(root):
    """CITATION.cff, the first version of CHANGELOG.md and those that projects ask for are that of CMakeLists.txt."""
    if not (root / "CITATION.cff").exists():
        return
    version = re.search(r"^  VERSION (\S+)", (root / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE).group(1)
    for page, line in (("CITATION.cff", r"^version: (\S+)$"), ("CHANGELOG.md", r"^## (\d\S*)")):
        found = re.search(line, (root / page).read_text(encoding="utf-8"), re.MULTILINE)
        if not found or found.group(1) != version:
            yield f"{page}: its version is {found.group(1) if found else 'not there'}, that of CMakeLists.txt is {version}"
    for folder in FINDERS:
        page = root / folder / "CMakeLists.txt"
        for asked in re.findall(r"find_(?:package|dependency)\(tutti ([\d.]+)", page.read_text(encoding="utf-8") if page.exists() else ""):
            if not version.startswith(f"{asked}."):
                yield f"{folder}/CMakeLists.txt: asks for tutti {asked}, the version is {version}"


def dead_links(root):
    pages = [path for path in sorted(root.rglob("*.md"))
             if path.relative_to(root).parts[0] not in ("build", ".git")]
    for page in pages:
        for target, _ in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not (page.parent / target).exists():
                yield f"{page.relative_to(root).as_posix()}: link to {target} leads nowhere"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--root", type=pathlib.Path, default=default)
    args = parser.parse_args()
    faults = [*undocumented(args.root), *undocumented_python(args.root), *unlisted_variables(args.root),
              *settings_outside_config(args.root), *rendezvous_variables(args.root),
              *unlisted_variables_of_others(args.root), *agreed_settings(args.root),
              *promises.faults(args.root), *kinds.faults(args.root), *made.faults(args.root), *glossary_faults(args.root),
              *version_faults(args.root), *dead_links(args.root)]
    print("\n".join(faults + [f"{len(faults)} documentation faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
