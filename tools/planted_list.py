"""The list of planted faults: its rows in tests/planted, and what they must fit."""

import re
import tomllib

FOLDER = "tests/planted"
NEEDED = {"what", "test"}
OPTIONAL = {"change", "preset", "runs"}
PRESETS = {"dev", "asan", "tsan", "fuzz"}


class Fault:
    """One row. Without a `change` it stands in the tests themselves, which plant it in every run."""

    def __init__(self, file, name, row):
        self.file = file
        self.id = name
        self.row = row
        self.what = row.get("what", "")
        self.change = row.get("change")
        self.test, _, self.filter = row.get("test", "").partition(" ")
        self.preset = row.get("preset", "dev")
        self.runs = row.get("runs", "gating")

    @property
    def is_planted(self):
        return self.change is not None

    @property
    def is_python(self):
        return ".py" in self.test

    @property
    def check(self):
        """The test that must fail: (preset, test, filter, gating or long)."""
        return self.preset, self.test, self.filter, self.runs

    def planted_in(self, text):
        return text.replace(*self.change)


def parse_faults(text):
    """The faults of a file: ["src/a.cpp".module.name] is the fault module.name in src/a.cpp."""
    return [Fault(file, f"{module}.{name}", row)
            for file, modules in tomllib.loads(text).items()
            for module, rows in modules.items() for name, row in rows.items()]


def list_files(root):
    return sorted((root / FOLDER).glob("*.toml"))


def read_faults(root, module=None):
    return [fault for path in list_files(root) if module in (None, path.stem)
            for fault in parse_faults(path.read_text())]


class Tests:
    """The tests and their sources, as far as a look at the build files tells."""

    CALL = re.compile(r"\bNAME\s+([\w.]+)([^()]*)")
    SOURCE = re.compile(r"[\w/]+\.cpp\b")
    PROGRAM = re.compile(r"\bPROGRAM\s+(\w+)")

    def __init__(self, root):
        self.root = root
        self.calls = {}  # of a test: its folder, and what stands behind its name
        for path in root.glob("tests/**/CMakeLists.txt"):
            for name, rest in self.CALL.findall(path.read_text()):
                self.calls[name] = (path.parent, rest)
        self.text = "\n".join(path.read_text() for path in root.glob("tests/**/*.[ch]pp"))

    def sources(self, test):
        """The files in which it stands: those that its build file names, else all of its folder."""
        if ".py" in test:
            return [self.root / test.partition("::")[0]]
        name = re.sub(r"\.\d+$", "", test)
        if name not in self.calls:
            return []
        folder, rest = self.calls[name]
        if program := self.PROGRAM.search(rest):
            folder, rest = self.calls.get(program[1], (folder, ""))
        named = [folder / source for source in self.SOURCE.findall(rest) if (folder / source).is_file()]
        return named or sorted(path for path in folder.iterdir() if path.is_file())

    def trouble(self, fault):
        if fault.is_python:
            path, _, name = fault.test.partition("::")
            if not (self.root / path).is_file():
                return f"there is no {path}"
            name = name.partition("[")[0]
            if name and f"def {name}(" not in (self.root / path).read_text():
                return f"{path} has no test {name}"
            return None
        name = re.sub(r"\.\d+$", "", fault.test)
        if name not in self.calls:
            return f"there is no test {fault.test}"
        # The bodies of an instantiation stand in other files.
        text = self.text if "INSTANTIATION" in self.calls[name][1] else "".join(path.read_text() for path in self.sources(name))
        for word in re.findall(r"[A-Za-z]\w{3,}", fault.filter):
            if word not in text:
                return f"{fault.test} has no {word}"
        return None


def list_troubles(root):
    tests = Tests(root)
    seen = set()
    for list_file in list_files(root):
        for fault in parse_faults(list_file.read_text()):
            name = f"{FOLDER}/{list_file.name}: {fault.id}"
            if fault.id in seen:
                yield f"{name}: stands there twice"
            seen.add(fault.id)
            for trouble in troubles_of(root, tests, fault):
                yield f"{name}: {trouble}"


def troubles_of(root, tests, fault):
    missing, unknown = NEEDED - set(fault.row), set(fault.row) - NEEDED - OPTIONAL
    if missing or unknown:
        yield f"misses {sorted(missing)}, does not know {sorted(unknown)}"
        return
    if not re.fullmatch(r"[a-z_]+\.[a-z0-9]+(-[a-z0-9]+)*", fault.id):
        yield "an id is module.some-words"
    if not fault.what.endswith("."):
        yield "`what` is a sentence"
    if fault.preset not in PRESETS or fault.runs not in ("gating", "long"):
        yield f"preset is one of {sorted(PRESETS)}, runs is gating or long"
    if trouble := tests.trouble(fault):
        yield trouble
    path = root / fault.file
    if not path.is_file():
        yield f"there is no {fault.file}"
    elif fault.is_planted:
        find, replace = fault.change
        count = path.read_text().count(find) if find else 0
        if count != 1:
            yield f"its text stands {count} times in {fault.file}, not once"
        if find == replace:
            yield "changes nothing"


def table(faults):
    planted = sum(fault.is_planted for fault in faults)
    lines = [f"{len(faults)} faults, {planted} of them planted by the runner.", "",
             "| fault | what goes wrong | found by |", "|---|---|---|"]
    for fault in faults:
        notes = [] if fault.is_planted else ["plants it itself"]
        notes += [fault.preset] if fault.preset != "dev" else []
        notes += [fault.runs] if fault.runs != "gating" else []
        test = f"`{fault.test} {fault.filter}".rstrip() + "`"
        lines.append(f"| {fault.id} | {fault.what} | {', '.join([test, *notes])} |")
    return "\n".join(lines)

