"""./dev test: what a contributor needs before a change is sent, and with --changed what the change itself needs."""

import budget
from changed import affected_labels
from console import BUILD, Background, Phases, need, only_once, say
from preset_tests import Stage, configured, run_stages
from python_tests import build_module, configure_module, run_on_build
from results import Results
from selection import Rotation, tests_of

# In this order: what compiles and runs fast is told first.
STAGES = {"unit": ("unit", "package"), "contract": ("contract",), "processes": ("processes", "example")}
# Tests of what seldom changes: they run when it has.
ONLY_AFTER_A_CHANGE = {"proof", "tools"}


def chosen(tests, rotation):
    return [test for test in tests if "full" not in test.labels and rotation.takes(test.labels)]


def without_the_unchanged(tests, labels):
    """Without the tests that run only after a change of what they look at."""
    return [test for test in tests if labels is None or not test.is_of(ONLY_AFTER_A_CHANGE) or test.is_of(labels)]


def say_what_is_left_out(everything, tests, with_python):
    folders = sorted({label for test in set(everything) - set(tests) for label in test.labels if "/" in label} -
                     {label for test in tests for label in test.labels})
    print(f"{len(tests)} of {len(everything)} tests look at the change; left out: "
          f"{', '.join(folders + ([] if with_python else ['python'])) or 'nothing'}", flush=True)


def largest_stages():
    """The stages on the largest numbers of ranks that rotation may choose."""
    tests = chosen(tests_of("dev"), budget.LargestSizes())
    return [Stage(name, [test for test in tests if test.is_of(kinds)]) for name, kinds in STAGES.items()]


def test(results, phases, only_changed=False):
    rotation = Rotation()
    labels, files = affected_labels()
    say(f"rotation {rotation.number}")
    with_python = not only_changed or labels is None or "python" in labels
    with phases.phase("installing packages"):
        # apt may ask for a password, which it cannot in the background.
        need("--apt", "core", "tests", *(["python"] if with_python else []))
    pip = Background(lambda: need("python") or True, BUILD / "pip.log") if with_python else None
    try:
        if not configured("dev", results):
            return
        everything = without_the_unchanged(chosen(tests_of("dev"), rotation), labels)
        tests = everything
        if only_changed:
            print(f"changed: {'unknown, so everything' if files is None else ' '.join(files) or 'nothing'}")
            tests = everything if labels is None else [test for test in everything if test.is_of(labels)]
            say_what_is_left_out(everything, tests, with_python)
        stages = [Stage(name, [test for test in tests if test.is_of(kinds)]) for name, kinds in STAGES.items()]
        run_stages("dev", stages, results, phases)
        if with_python:
            python(pip, results, phases)
        if not only_changed:
            budget.check_cases(results)
    finally:
        if pip:
            pip.stop()


def python(pip, results, phases):
    with phases.phase("waiting for pip"):
        installed = pip.finish()
    with phases.phase("python: building"):
        if not installed or not configure_module() or not build_module():
            results.failed("the build of the Python module")
            return
    with phases.phase("python: tests"):
        run_on_build(results)


def command(only_changed):
    only_once()
    results, phases = Results(), Phases()
    with results.step("./dev test"):
        test(results, phases, only_changed)
    phases.report()
    return results.count(may_be_empty=only_changed)
