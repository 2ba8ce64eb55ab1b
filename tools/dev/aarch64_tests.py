"""The preset aarch64: built by Debian's cross compiler, run under qemu-user, on 2 and 3 ranks."""

import os
import tomllib

from console import BUILD, ROOT, need, run, say
from building import build
from preset_tests import Stage, configured, run_stages
from selection import SIZE, tests_of

PRESET = "aarch64"
EMULATOR = ("prlimit", "--as=34359738368", "qemu-aarch64")  # the reason stands in cmake/aarch64.cmake
# The tour of the operations, and a training, on so many processes.
DEMO = {"10_every_operation": 2, "02_all_reduce": 3, "digits_training": 2}


def runs_here(test):
    """On 2 and 3 ranks, not on numbers that have their turn. The proofs of schedules compute for an hour here, and know
    no processor."""
    return "proof" not in test.labels and not any(map(SIZE.fullmatch, test.labels))


def is_slow(test):
    """Computes for minutes under the emulator."""
    return test.is_of({"unit/kernels", "unit/simulation"})


def left_out():
    """GoogleTest's filter without the cases that qemu-user cannot run."""
    rows = tomllib.loads((ROOT / "tools" / "not_under_qemu.toml").read_text(encoding="utf-8"))["cannot"]
    return "-" + ":".join(case for row in rows for case in row["cases"])


def part(name, condition):
    """The tests for which the condition holds."""
    def run_part(job):
        need("core", "tests", "aarch64")
        if configured(PRESET, job.results):
            tests = [test for test in tests_of(PRESET) if condition(test) and runs_here(test)]
            os.environ["GTEST_FILTER"] = left_out()
            run_stages(PRESET, [Stage(name, tests)], job.results, job.phases)
    return run_part


def demo(job):
    need("core", "tests", "aarch64")
    with job.phases.phase("aarch64: building the demo"):
        if not configured(PRESET, job.results) or not build(PRESET, ["tuttirun", *DEMO]):
            job.results.failed("the demo's build for aarch64")
            return
    folder = BUILD / PRESET / "bin"
    for program, ranks in DEMO.items():
        say(f"{program} on {ranks} processes of aarch64")
        with job.phases.phase(f"aarch64: {program}"):
            job.results.outcome(f"{program} for aarch64", run(
                *EMULATOR, folder / "tuttirun", "--nproc-per-node", ranks, *EMULATOR, folder / program))


PARTS = {
    "aarch64:unit": part("unit", lambda test: "unit" in test.labels and not is_slow(test)),
    "aarch64:slow": part("slow", lambda test: "unit" in test.labels and is_slow(test)),
    "aarch64:contract": part("contract", lambda test: "contract" in test.labels and "contract/group" not in test.labels),
    "aarch64:groups": part("groups", lambda test: "contract/group" in test.labels),
    "aarch64:demo": demo,
}
