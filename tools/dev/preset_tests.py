"""Builds and runs tests of a preset, so that one folder's tests run while the next folder compiles."""

import xml.etree.ElementTree as ElementTree

from building import build, configure
from console import BUILD, JOBS, Background, run, say
from selection import targets_of

# Tests wait more than they compute.
PARALLEL = 2 * JOBS


class Stage:
    """Tests that are built before the first of them runs, and run while the next stage is built."""

    def __init__(self, name, tests):
        self.name = name
        self.tests = tests
        self.targets = targets_of(tests)


def run_ctest(preset, stage, results):
    """Runs the stage's tests; their outcome goes into the results."""
    say(f"{len(stage.tests)} tests of {preset}: {stage.name}")
    file = BUILD / preset / "ctest" / f"{stage.name}.xml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    numbers = [str(test.number) for test in stage.tests]
    well = run("ctest", "--preset", preset, "--parallel", PARALLEL, "--output-junit", file,
               "-I", ",".join([numbers[0], numbers[0], "", *numbers[1:]]))
    results.add(file, well)
    if missing := sorted({test.name for test in stage.tests} - names_in(file)):
        results.failed(f"tests of {preset} that did not run: {' '.join(missing)}")


def names_in(file):
    """The tests that a file of ctest tells of; count_tests.py says what is wrong with a file that cannot be read."""
    try:
        return {case.get("name") for case in ElementTree.parse(file).iter("testcase")}
    except (OSError, ElementTree.ParseError):
        return set()


def run_stages(preset, stages, results, phases):
    stages = [stage for stage in stages if stage.tests]
    ahead = None
    try:
        for place, stage in enumerate(stages):
            with phases.phase(f"{preset}: building {stage.name}"):
                built = ahead.finish() if ahead else build(preset, stage.targets)
            ahead = None
            if place + 1 < len(stages):
                following = stages[place + 1]
                ahead = Background(lambda: build(preset, following.targets), BUILD / "ahead.log")
            if not built:
                results.failed(f"the build of {preset}: {stage.name}")
                continue
            with phases.phase(f"{preset}: tests of {stage.name}"):
                run_ctest(preset, stage, results)
    finally:
        if ahead:
            ahead.stop()


def configured(preset, results, *options):
    if configure(preset, *options):
        return True
    results.failed(f"the configuration of {preset}")
    return False
