"""A copy of the tree, in which faults are planted, and the tests that run in it."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time

import tree

# Each folder compiles as one, so that the first build takes minutes.
OPTIONS = ["-DTUTTI_UNITY=ON", "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1"]


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
        self.filters = {}  # of a check: what chooses its cases
        self.gating = {}  # of a preset: the names of the tests that run before a change lands

    def sync(self):
        names = set(tree.files(self.root))
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

    def configure(self, preset, faults):
        (self.tree / "build").mkdir(parents=True, exist_ok=True)
        kernels = "ON" if any(fault.file.endswith(".cu") for fault in faults) else "OFF"
        arguments = ["cmake", "--preset", preset, *OPTIONS, f"-DTUTTI_CUDA_KERNELS={kernels}"]
        if any(fault.is_python for fault in faults):
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

    def filter_of(self, check, environment):
        """The filter of a check. In a program of several tests it would choose cases of the others, too."""
        program, *sources = self.program_of(check)
        test_filter = check[2]
        if not test_filter or not sources or not all(source.endswith(".cpp") for source in sources):
            return test_filter
        shown = self.tree / "build" / "cases.json"
        subprocess.run([program, "--gtest_list_tests", f"--gtest_output=json:{shown}"], check=False,
                       env=environment | {"GTEST_FILTER": test_filter}, stdout=subprocess.DEVNULL)
        cases = {f"{suite['name']}.{case['name']}": case["file"].endswith(tuple(sources))
                 for suite in json.loads(shown.read_text())["testsuites"] for case in suite["testsuite"]}
        return test_filter if all(cases.values()) else ":".join(case for case, ours in cases.items() if ours)

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
        preset, test, _, runs = check
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
            if check not in self.filters:
                self.filters[check] = self.filter_of(check, environment)
            if self.filters[check]:
                environment["GTEST_FILTER"] = self.filters[check]
        watch = [sys.executable, str(self.root / "tools" / "run_with_stacks.py"), "--timeout", str(int(limit)), "--"]
        begin = time.monotonic()
        done = subprocess.run([*watch, *program], env=environment, cwd=self.build_of(preset), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        seconds = time.monotonic() - begin
        return Outcome(done.returncode == 0, seconds, done.stdout, seconds >= limit)
