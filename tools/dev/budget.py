"""What the tests may weigh: tools/budget.toml holds counts that are the same on every machine.

By stage of ./dev test: translation units, the lines that the compiler gets after preprocessing, tests and processes at the
largest number of ranks that rotation may choose. ./dev check compares them. To raise a count is a line of a commit, whose
message says why:

    python3 tools/dev/budget.py show      the counts of today
"""

import concurrent.futures
import re
import shlex
import subprocess
import sys
import tomllib

import testing
from building import configure
from console import BUILD, JOBS, ROOT, output_of
from preset_tests import Stage
from selection import Rotation, tests_of

FILE = ROOT / "tools" / "budget.toml"
COMPILE = re.compile(r" -c .+\.(cpp|c)[\"']?$")


class LargestSizes(Rotation):
    """Takes the largest of the numbers of ranks among which rotation chooses: the last of each list."""

    def chooses(self, place, count):
        return place + 1 == count


def compilations_of(preset, targets):
    """The compiler's commands that make these targets."""
    told = output_of("ninja", "-C", BUILD / preset, "-t", "commands", *targets) or ""
    return [line for line in told.splitlines() if COMPILE.search(line)]


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
        raise SystemExit(f"budget: cannot preprocess: {command}\n{done.stderr.decode(errors='replace')}")
    return done.stdout.count(b"\n")


def counts():
    """By stage, what stands in the file."""
    tests = testing.chosen(tests_of("dev"), LargestSizes())
    seen, found = set(), {}
    for name, kinds in testing.STAGES.items():
        stage = Stage(name, [test for test in tests if test.is_of(kinds)])
        commands = [command for command in compilations_of("dev", stage.targets) if command not in seen]
        seen.update(commands)  # a file counts where it is compiled first
        with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
            lines = sum(pool.map(preprocessed_lines, commands))
        found[name] = {"units": len(commands), "lines": lines, "tests": len(stage.tests),
                       "processes": sum(test.processes for test in stage.tests)}
    return found


def limits():
    with open(FILE, "rb") as file:
        return tomllib.load(file)


def compiler():
    return (output_of("c++", "-dumpfullversion") or "").strip()


def check():
    """True if no count exceeds that of the file."""
    if not configure("dev"):
        return False
    allowed = limits()
    if compiler() != allowed["compiler"]:
        print(f"not compared: the counts are for g++ {allowed['compiler']} of Debian 12, this one is {compiler()}")
        return True
    well = True
    for stage, found in counts().items():
        for what, count in found.items():
            most = allowed[stage][what]
            if count > most:
                print(f"{stage}: {count} {what}, at most {most} (tools/budget.toml)")
                well = False
        print(f"{stage}: " + ", ".join(f"{count} {what}" for what, count in found.items()))
    return well


if __name__ == "__main__":
    if sys.argv[1:] != ["show"]:
        raise SystemExit(__doc__)
    configure("dev")
    for stage_name, stage_counts in counts().items():
        print(f"\n[{stage_name}]\n" + "\n".join(f"{what} = {count}" for what, count in stage_counts.items()))
