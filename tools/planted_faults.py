#!/usr/bin/env python3
"""Proves that the tests find faults: each is planted into a copy of the tree, and its test must fail.

    planted_faults.py check                       the list in tests/planted fits the sources and tests/README.md
    planted_faults.py table [--write]             the table of the list; --write puts it into tests/README.md
    planted_faults.py run [ids] [--module NAME]     plants them one after the other and runs their tests
"""

import argparse
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import tomllib

FOLDER = "tests/planted"
PAGE = "tests/README.md"
BEGIN = "<!-- The table: tools/planted_faults.py table --write -->"
END = "<!-- The end of the table. -->"
NEEDED = {"id", "file", "what", "test"}
OPTIONAL = {"find", "replace", "filter", "preset", "runs"}
PRESETS = {"dev", "asan", "tsan", "fuzz"}
LEAST_LIMIT = 60  # seconds for a test that sees its fault as a hang
TIMES_SLOWER = 8  # than without the fault


class Fault:
    """One row. Without `find` it stands in the tests themselves, which plant it in every run."""

    def __init__(self, module, row):
        self.module = module
        self.id = row.get("id", "")
        self.file = row.get("file", "")
        self.what = row.get("what", "")
        self.find = row.get("find")
        self.replace = row.get("replace", "")
        self.test = row.get("test", "")
        self.filter = row.get("filter", "")
        self.preset = row.get("preset", "dev")
        self.runs = row.get("runs", "gating")
        self.keys = set(row)

    @property
    def is_planted(self):
        return self.find is not None

    @property
    def is_python(self):
        return ".py" in self.test

    @property
    def check(self):
        """The test that must fail: (preset, test, filter, gating or long)."""
        return self.preset, self.test, self.filter, self.runs


def read_faults(root):
    faults = []
    for path in sorted((root / FOLDER).glob("*.toml")):
        with open(path, "rb") as file:
            faults += [Fault(path.stem, row) for row in tomllib.load(file).get("fault", [])]
    return faults


# ---- the list against the sources ---------------------------------------------------------------


class Tests:
    """The names of the tests, as far as a look at their sources tells."""

    def __init__(self, root):
        self.root = root
        build_files = [path.read_text() for path in root.glob("tests/**/CMakeLists.txt")]
        self.names = set(re.findall(r"NAME\s+([\w.]+)", "\n".join(build_files)))
        self.text = "\n".join(path.read_text() for path in root.glob("tests/**/*.[ch]pp"))

    def trouble(self, fault):
        if fault.is_python:
            path, _, name = fault.test.partition("::")
            if not (self.root / path).is_file():
                return f"there is no {path}"
            name = name.partition("[")[0]
            if name and f"def {name}(" not in (self.root / path).read_text():
                return f"{path} has no test {name}"
            return None
        if re.sub(r"\.\d+$", "", fault.test) not in self.names:
            return f"there is no test {fault.test}"
        for word in re.findall(r"[A-Za-z]\w{3,}", fault.filter):
            if word not in self.text:
                return f"no test is called {word}"
        return None


def list_troubles(root, faults):
    tests = Tests(root)
    seen = set()
    for fault in faults:
        name = f"{FOLDER}/{fault.module}.toml: {fault.id}"
        missing, unknown = NEEDED - fault.keys, fault.keys - NEEDED - OPTIONAL
        if missing or unknown:
            yield f"{name}: misses {sorted(missing)}, does not know {sorted(unknown)}"
            continue
        if fault.id in seen:
            yield f"{name}: stands there twice"
        seen.add(fault.id)
        if not re.fullmatch(r"[a-z_]+(\.[a-z0-9]+(-[a-z0-9]+)*)", fault.id):
            yield f"{name}: an id is module.some-words"
        if not fault.what.endswith("."):
            yield f"{name}: `what` is a sentence"
        if fault.preset not in PRESETS or fault.runs not in ("gating", "long"):
            yield f"{name}: preset is one of {sorted(PRESETS)}, runs is gating or long"
        if trouble := tests.trouble(fault):
            yield f"{name}: {trouble}"
        path = root / fault.file
        if not path.is_file():
            yield f"{name}: there is no {fault.file}"
        elif fault.is_planted:
            count = path.read_text().count(fault.find) if fault.find else 0
            if count != 1:
                yield f"{name}: its text stands {count} times in {fault.file}, not once"
            if fault.find == fault.replace:
                yield f"{name}: changes nothing"


def table(faults):
    planted = sum(fault.is_planted for fault in faults)
    lines = [f"{len(faults)} faults, {planted} of them planted by the runner.", "",
             "| fault | what goes wrong | found by |", "|---|---|---|"]
    for fault in faults:
        test = fault.test + (f" {fault.filter}" if fault.filter else "")
        notes = [] if fault.is_planted else ["plants it itself"]
        notes += [fault.preset] if fault.preset != "dev" else []
        notes += [fault.runs] if fault.runs != "gating" else []
        lines.append(f"| {fault.id} | {fault.what} | `{test}`{''.join(f', {note}' for note in notes)} |")
    return "\n".join(lines)


def split_page(text):
    """The text before, in and behind the table."""
    before, begin, rest = text.partition(BEGIN)
    inside, end, behind = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"planted_faults: {PAGE} has no place for the table: {BEGIN} ... {END}")
    return before, inside.strip(), behind


def page_with(text, faults):
    before, _, behind = split_page(text)
    return f"{before}{BEGIN}\n\n{table(faults)}\n\n{END}{behind}"


def cmd_check(root):
    faults = read_faults(root)
    troubles = list(list_troubles(root, faults))
    page = (root / PAGE).read_text()
    if not troubles and page_with(page, faults) != page:
        troubles.append(f"{PAGE}: the table differs from {FOLDER}; run: tools/planted_faults.py table --write")
    for trouble in troubles:
        print(trouble)
    return 1 if troubles else 0


def cmd_table(root, write):
    faults = read_faults(root)
    if write:
        path = root / PAGE
        path.write_text(page_with(path.read_text(), faults))
    else:
        print(table(faults))
    return 0


# ---- planting -----------------------------------------------------------------------------------


class Outcome:
    def __init__(self, passed, seconds, output, over=False):
        self.passed = passed
        self.seconds = seconds
        self.output = output
        self.over = over

    def cases_run(self):
        return sum(int(count) for count in re.findall(r"\[  PASSED  \] (\d+) test|(?:^|\s)(\d+) passed", self.output)
                   for count in count if count)

    def first_failure(self):
        if self.over:
            return "the time limit"
        for pattern in (r"\[  FAILED  \] ([\w./]+)", r"^FAILED (\S+)", r"^(\S+:\d+): Failure",
                        r"^SUMMARY: (\w+: [\w-]+(?: [\w-]+)?)"):
            if found := re.search(pattern, self.output, re.MULTILINE):
                return found[1].rpartition("/tests/")[2].strip()
        return "its end"  # killed, or stopped by an assertion


def environment_of(runs):
    """Ours, but a fault that gates must be found by what gates: without more cases, and by seeds that do not rotate."""
    chosen = ("TUTTI_LONG_TESTS", "TUTTI_ROTATION")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    return environment | ({"TUTTI_LONG_TESTS": "1"} if runs == "long" else {})


class Copy:
    """A copy of the tree under build/planted, and what is built of it."""

    def __init__(self, root):
        self.root = root
        self.tree = root / "build" / "planted" / "tree"
        self.tree.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.tree.parent / "lock", "w")  # held until we end
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SystemExit("planted_faults: another one runs in build/planted") from None
        self.presets = {}
        self.commands = {}  # of a preset: by the name of the test
        self.gating = {}  # of a preset: the names of the tests that run before a change lands

    def sync(self):
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                cwd=self.root, capture_output=True, check=True).stdout
        names = {name.decode() for name in listed.split(b"\0") if name and (self.root / name.decode()).is_file()}
        for path in list(self.tree.rglob("*")):
            name = path.relative_to(self.tree)
            if name.parts[0] != "build" and "__pycache__" not in name.parts and path.is_file() and \
                    str(name) not in names:
                path.unlink()
        for name in names:
            source, target = self.root / name, self.tree / name
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)  # with a new time: what is built of it is out of date

    def configure(self, preset, python):
        (self.tree / "build").mkdir(parents=True, exist_ok=True)
        arguments = ["cmake", "--preset", preset, "-DTUTTI_UNITY=OFF"]
        if python:
            arguments += ["-DTUTTI_PYTHON=ON", f"-DPython_EXECUTABLE={self.venv_python()}"]
        self.must(arguments, f"{preset}: cannot be configured")
        for one in json.loads((self.tree / "CMakePresets.json").read_text())["testPresets"]:
            if one["name"] == preset:
                self.presets[preset] = one.get("environment", {})
        shown = self.must(["ctest", "--test-dir", self.build_of(preset), "--show-only=json-v1"], "no list of tests")
        self.commands[preset] = {test["name"]: test for test in json.loads(shown)["tests"]}
        shown = self.must(["ctest", "--preset", preset, "--show-only=json-v1"], "no list of the tests that gate")
        self.gating[preset] = {test["name"] for test in json.loads(shown)["tests"]}

    def venv_python(self):
        return str(self.root / "build" / "venv" / "bin" / "python")

    def build_of(self, preset):
        return self.tree / "build" / preset

    def must(self, arguments, trouble):
        done = subprocess.run(arguments, cwd=self.tree, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"planted_faults: {trouble}\n{done.stdout}{done.stderr}")
        return done.stdout

    def runs_as_told(self, check):
        preset, test, _, runs = check
        return runs != "gating" or ".py" in test or test in self.gating[preset]

    def targets_of(self, check):
        preset, test, *_ = check
        if ".py" in test:
            return ["_tutti", "tuttirun"]
        build = str(self.build_of(preset)) + "/"
        return [part.removeprefix(build) for part in self.program_of(check) if part.startswith(build + "bin/")]

    def program_of(self, check):
        preset, test, *_ = check
        if test not in self.commands[preset]:
            raise SystemExit(f"planted_faults: preset {preset} has no test {test}")
        command = self.commands[preset][test]["command"]
        return command[command.index("--") + 1:]

    def build(self, checks):
        """The output of the build if it fails."""
        for preset in sorted({check[0] for check in checks}):
            targets = sorted({target for check in checks if check[0] == preset for target in self.targets_of(check)})
            done = subprocess.run(["cmake", "--build", self.build_of(preset), "--target", *targets],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if done.returncode != 0:
                return done.stdout
        return None

    def run(self, check, limit):
        preset, test, test_filter, runs = check
        environment = environment_of(runs) | self.presets[preset] | {"GTEST_FAIL_FAST": "1"}
        if ".py" in test:
            places = f"{self.build_of(preset)}/python:{self.tree}/tests/python"
            environment |= {"PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
            program = [self.venv_python(), "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(self.tree / test)]
        else:
            program = self.program_of(check)
            for one in self.commands[preset][test]["properties"]:
                if one["name"] == "ENVIRONMENT":
                    environment |= dict(entry.split("=", 1) for entry in one["value"])
            if test_filter:
                environment["GTEST_FILTER"] = test_filter
        watch = [sys.executable, str(self.root / "tools" / "run_with_stacks.py"), "--timeout", str(int(limit)), "--"]
        begin = time.monotonic()
        done = subprocess.run([*watch, *program], env=environment, cwd=self.build_of(preset), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        seconds = time.monotonic() - begin
        return Outcome(done.returncode == 0, seconds, done.stdout, seconds >= limit)


def plant(copy, fault, limit):
    """(the way the fault was found, or that it was not; the output of the test or the build)."""
    path = copy.tree / fault.file
    original = path.read_text()
    try:
        path.write_text(original.replace(fault.find, fault.replace))
        if trouble := copy.build([fault.check]):
            return "DOES NOT BUILD", trouble
        outcome = copy.run(fault.check, limit)
    finally:
        path.write_text(original)
    if outcome.passed:
        return "NOT FOUND", outcome.output
    return f"found by {outcome.first_failure()}", outcome.output


def cmd_run(root, ids, module):
    chosen = [fault for fault in read_faults(root) if fault.is_planted and (not module or fault.module == module)]
    if unknown := set(ids) - {fault.id for fault in chosen}:
        raise SystemExit(f"planted_faults: no such fault: {', '.join(sorted(unknown))}")
    chosen = [fault for fault in chosen if not ids or fault.id in ids]
    copy = Copy(root)
    copy.sync()
    for preset in sorted({fault.preset for fault in chosen}):
        copy.configure(preset, any(fault.is_python for fault in chosen if fault.preset == preset))
    checks = list(dict.fromkeys(fault.check for fault in chosen))
    print(f"building what {len(checks)} tests need", flush=True)
    if trouble := copy.build(checks):
        raise SystemExit(f"planted_faults: without a fault it does not build\n{trouble}")
    logs = root / "build" / "planted" / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    limits = {}
    for check in checks:  # what fails anyway, or runs nothing, finds nothing
        outcome = copy.run(check, 600)
        if not copy.runs_as_told(check):
            print(f"{' '.join(check)} does not gate: ./dev test leaves it out")
        elif outcome.passed and outcome.cases_run() > 0:
            limits[check] = max(LEAST_LIMIT, TIMES_SLOWER * outcome.seconds)
        else:
            print(f"{' '.join(check)} fails, or runs nothing, without a fault:\n{outcome.output}")
    print(f"{len(limits)} of {len(checks)} tests pass without a fault", flush=True)
    missed = 0
    for fault in chosen:
        begin = time.monotonic()
        told, output = "ITS TEST FAILS WITHOUT IT", ""
        if fault.check in limits:
            told, output = plant(copy, fault, limits[fault.check])
        (logs / f"{fault.id}.log").write_text(output)
        missed += not told.startswith("found")
        print(f"{fault.id:36} {time.monotonic() - begin:6.1f} s  {told}", flush=True)
    copy.build(checks)  # without the last fault
    print(f"{len(chosen) - missed} of {len(chosen)} planted faults were found; outputs: {logs}")
    return 1 if missed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("table").add_argument("--write", action="store_true")
    run = commands.add_parser("run")
    run.add_argument("ids", nargs="*")
    run.add_argument("--module", help="a file of tests/planted")
    args = parser.parse_args()
    if args.command == "check":
        return cmd_check(args.root)
    if args.command == "table":
        return cmd_table(args.root, args.write)
    return cmd_run(args.root, args.ids, args.module)


if __name__ == "__main__":
    sys.exit(main())
