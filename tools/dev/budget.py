"""What the tests may weigh: tools/budget.toml holds counts that are the same on every machine.

By stage of ./dev test: translation units, the lines that the compiler gets after preprocessing, tests and processes at the
largest number of ranks that rotation may choose. ./dev check compares them. Cases are known once the tests have run, so
./dev test compares these. To raise a count is a line of a commit, whose message says why.
"""

import concurrent.futures
import re
import shlex
import subprocess
import sys
import tomllib

from console import BUILD, JOBS, ROOT, Failed, output_of
from selection import Rotation

sys.path.append(str(ROOT / "tools"))

import count_tests  # noqa: E402

FILE = ROOT / "tools" / "budget.toml"
COMPILE = re.compile(r" -c .+\.(cpp|c)[\"']?$")


class LargestSizes(Rotation):
    """Takes the largest of the numbers of ranks among which rotation chooses: the last of each list."""

    def chooses(self, place, count):
        return place + 1 == count


def compilations_of(preset, targets):
    """The compiler's commands that make these targets."""
    told = output_of("ninja", "-C", BUILD / preset, "-t", "commands", *targets) or ""
    found = [line for line in told.splitlines() if COMPILE.search(line)]
    if not found:
        raise Failed(f"Ninja cannot list how the tests are compiled in build/{preset}")
    return found


def preprocessed_lines(command):
    """The lines of one translation unit without empty ones; a precompiled header counts where it is included."""
    words = shlex.split(command)
    if "ccache" in " ".join(words):
        words = words[next(place for place, word in enumerate(words) if word.endswith(("c++", "g++", "gcc", "cc")) and
                           "ccache" not in word):]
    plain, skip = [], False
    for place, word in enumerate(words):
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT", "-MQ"):
            skip = True
        elif word == "-include" and "cmake_pch" in words[place + 1]:
            skip = True
        elif word not in ("-MD", "-c", "-Winvalid-pch"):
            plain.append(word)
    done = subprocess.run([*plain, "-E", "-P"], cwd=BUILD / "dev", capture_output=True, check=False)
    if done.returncode != 0:
        raise Failed(f"budget: cannot preprocess: {command}\n{done.stderr.decode(errors='replace')}")
    return done.stdout.count(b"\n")


def counts(stages):
    """By stage, what stands in the file; the stages have the tests of the largest number of ranks."""
    seen, found = set(), {}
    for stage in stages:
        commands = [command for command in compilations_of("dev", stage.targets) if command not in seen]
        seen.update(commands)  # a file counts where it is compiled first
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            lines = sum(pool.map(preprocessed_lines, commands))
        found[stage.name] = {"units": len(commands), "lines": lines, "tests": len(stage.tests),
                             "processes": sum(test.processes for test in stage.tests)}
    return found


def limits():
    with open(FILE, "rb") as file:
        return tomllib.load(file)


def compiler():
    return (output_of("c++", "-dumpfullversion") or "").strip()


def check(stages):
    """True if no count exceeds that of the file."""
    allowed = limits()
    if compiler() != allowed["compiler"]:
        print(f"not compared: the counts are for g++ {allowed['compiler']} of Debian 12, this one is {compiler()}")
        return True
    well = True
    for stage, found in counts(stages).items():
        for what, count in found.items():
            most = allowed[stage][what]
            if count > most:
                print(f"{stage}: {count} {what}, at most {most} (tools/budget.toml)")
                well = False
        print(f"{stage}: " + ", ".join(f"{count} {what}" for what, count in found.items()))
    return well


def check_cases(results):
    """After all tests of ./dev test: more cases than the file allows count as a failure."""
    allowed = limits()
    for file in results.files:
        count = len(count_tests.cases_of(file))
        most = allowed.get(file.stem, {}).get("cases")
        print(f"{file.stem}: {count} cases, at most {most}", flush=True)
        if most is not None and count > most:
            results.failed(f"{file.stem}: {count} cases, at most {most} (tools/budget.toml)")
