"""./dev test full: everything, in parts that take minutes each. A name is `what:which`; the word before the colon
names all of them."""

import os

import aarch64_tests
import aarch64_wheel
import compiler_tests
import mpi_tests
import site_build
import torch_tests
from building import build, configure
from changed import begin_of_change, changed_files, own_labels
from commands_of_pages import run_commands
from console import BUILD, ROOT, Failed, Phases, need, only_once, pip_packages, run, say
from preset_tests import Stage, configured, run_stages
from python_tests import (PYTHON, VENV, build_module, configure_module, install_wheel, make_wheel, run_on_build,
                          run_pytest)
from results import Results
from selection import Rotation, tests_of

SANITIZERS = ("asan", "tsan")
# vllm's packages are 3.5 GB: it is checked by hand.
INTEGRATIONS = ("lightgbm", "jax", "ray")


class Run:
    """One run of parts: what they add to."""

    def __init__(self, results, phases, labels=None):
        self.results = results
        self.phases = phases
        self.labels = labels  # only tests that look at the change have one of these; None: all

    def ctest(self, preset, name, condition, *options):
        """The tests of a preset for which the condition holds."""
        need("core", "tests")
        if not configured(preset, self.results, *options):
            return
        rotation = Rotation()
        tests = [test for test in tests_of(preset)
                 if condition(test) and rotation.takes(test.labels) and (self.labels is None or test.is_of(self.labels))]
        if not tests and self.labels is None:
            raise Failed(f"{preset} has no tests of {name}")
        if not tests:
            print(f"{preset}: no test of {name} looks at the change")
        run_stages(preset, [Stage(name, tests)], self.results, self.phases)


def sanitizer(preset, *kinds):
    """Under sanitizers worlds have 3 ranks, or a number that rotates."""
    return lambda job: job.ctest(preset, kinds[0], lambda test: test.is_of(kinds))


def all_sizes(*kinds):
    """The preset dev on all numbers of ranks, with all seeds and cases."""
    def part(job):
        Rotation("all")
        job.ctest("dev", f"all_sizes_{kinds[0]}", lambda test: test.is_of(kinds) and "full" not in test.labels)
    return part


def rest_of_dev(job):
    Rotation("all")
    job.ctest("dev", "rest", lambda test: "full" in test.labels and not test.is_of({"package/neighbours", "package/consumer"}))


def neighbours(job):
    """Programs with other copies of the libraries that tutti takes, on the static library and on the shared one."""
    need("core", "tests", "python")
    folder = BUILD / "neighbours"
    with job.phases.phase("neighbours: packages"):
        if not (folder / "nlohmann_json").is_dir() and not run(
                VENV / "bin" / "pip", "install", "--disable-pip-version-check", "-q", "--no-deps", "--target", folder,
                *pip_packages("neighbours"), log=BUILD / "neighbours.log"):
            job.results.failed("the packages of neighbours")
            return
    for preset in ("dev", "shared"):
        job.ctest(preset, f"neighbours_{preset}", lambda test: test.is_of({"package/neighbours"}),
                  f"-DTUTTI_OTHER_PACKAGES={folder}")


def consumers(job):
    """Programs of others that take tutti in each way, on two ranks, also on MPI."""
    job.ctest("dev", "consumers", lambda test: {"full", "package/consumer"} <= test.labels)


def long_tests(name, condition):
    """Random and generated cases in larger numbers."""
    def part(job):
        os.environ["TUTTI_LONG_TESTS"] = "1"
        job.ctest("dev", f"long_{name}", lambda test: "long" in test.labels and condition(test))
    return part


def each_file(job):
    """Each file compiled by itself includes what it uses; and all targets, of which the tests take only some."""
    need("core", "tests")
    with job.phases.phase("each file by itself"):
        job.results.outcome("the build of each file by itself", configure("files") and build("files"))


def release(job):
    job.ctest("release_tests", "release", lambda test: True)


def shared_library(job):
    """libtutti.so.0: one state in a process, another version beside it, what it shows and its ABI; and C on top of it."""
    need("core", "tests", "python", "abi")
    job.ctest("shared", "shared", lambda test: test.is_of({"package/shared"}) or test.name.startswith("c_api"),
              "-DTUTTI_PYTHON=ON", f"-DPython_EXECUTABLE={PYTHON}")


def docs(job):
    """The site, its links, and the blocks of code of all pages."""
    need("core", "tests", "python")
    with job.phases.phase("docs: the site"):
        job.results.outcome("the site of the documentation", site_build.build())
    with job.phases.phase("docs: building"):
        if not configure_module() or not build_module():
            job.results.failed("the build of the Python module")
            return
    with job.phases.phase("docs: blocks of code"):
        run_on_build(job.results, "tests/package/pages", name="blocks")


def commands(job):
    run_commands(job.results, job.phases)


def fuzz(condition, name):
    def part(job):
        need("fuzz")
        job.ctest("fuzz", name, condition)
    return part


def wheel(job):
    """The wheel, what only an installed package has, the types, and what tensors of torch are to the package."""
    need("core", "tests", "python", "wheel", "torch")
    with job.phases.phase("wheel: building"):
        if not make_wheel() or not install_wheel():
            job.results.failed("the wheel")
            return
    with job.phases.phase("wheel: tests"):
        run_pytest("wheel", job.results, "-m", "full", "--ignore", "tests/python/torch_backend", "tests/python")
        run_pytest("wheel_package", job.results, "tests/package/wheel")


def pip_install(job):
    """As README says, in an environment that has nothing yet: `pip install . numpy`, then its program."""
    need("core", "python")
    fresh, program = BUILD / "fresh-venv", BUILD / "program.py"
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    program.write_text(text, encoding="utf-8")
    with job.phases.phase("pip install ."):
        job.results.outcome(
            "pip install . in a new environment, and README's program",
            run("python3", "-m", "venv", "--clear", fresh) and
            run(fresh / "bin" / "pip", "install", "--disable-pip-version-check", "-q", ".", "numpy", log=BUILD / "fresh.log") and
            run("timeout", "60", fresh / "bin" / "tuttirun", "--nproc-per-node", "4", program,
                env=os.environ | {"PATH": f"{fresh / 'bin'}:{os.environ['PATH']}"}))


def python(job):
    """On all numbers of ranks, beside a torch that runs, with the module of the preset dev."""
    Rotation("all")
    need("core", "tests", "python", "torch")
    with job.phases.phase("python: building"):
        if not configure_module() or not build_module():
            job.results.failed("the build of the Python module")
            return
    with job.phases.phase("python: tests"):
        run_on_build(job.results, name="python_all_sizes")


def integration(job):
    """One of the adapters to other software, by turns, on its stock packages of 3 to 133 MB: integrations/check.sh."""
    need("core", "tests", "python", "wheel")
    name = next(name for place, name in enumerate(INTEGRATIONS) if Rotation().chooses(place, len(INTEGRATIONS)))
    with job.phases.phase(f"integration: {name}"):
        if not make_wheel():
            job.results.failed("the wheel")
            return
        wheel = next((BUILD / "wheels").glob("tutti-*.whl"))
        well = run("integrations/check.sh", name, env=os.environ | {"TUTTI_WHEEL": str(wheel)})
        file = BUILD / "integrations" / name / "results.xml"
        if file.exists():
            job.results.add(file, well)
        else:
            job.results.failed(f"integrations/check.sh {name}")


def rust(job):
    """The example in Rust, by Debian's compiler, on the library for C of the preset dev."""
    need("core", "rust")
    folder, program = BUILD / "dev" / "bindings" / "c", BUILD / "ring"
    with job.phases.phase("rust"):
        job.results.outcome(
            "the example in Rust on 2 ranks",
            configure("dev") and build("dev", ["tutti_c", "tuttirun"]) and
            run("/usr/bin/rustc", "examples/rust/ring.rs", "-L", folder, "-l", "tutti_c", "-o", program) and
            run("timeout", "60", BUILD / "dev" / "bin" / "tuttirun", "--nproc-per-node", "2", program,
                env=os.environ | {"LD_LIBRARY_PATH": str(folder)}))


def dockerfile(job):
    """Both images of the Dockerfile, and their commands, in a Debian of their own."""
    need("images")
    with job.phases.phase("images of the Dockerfile"):
        for target in ([], ["--target", "demo"]):
            job.results.outcome(f"the image of the Dockerfile {' '.join(target)}", run("python3", "tools/run_dockerfile.py", *target))


PARTS = {
    "asan:unit": sanitizer("asan", "unit", "package"),
    "asan:contract": sanitizer("asan", "contract"),
    "asan:processes": sanitizer("asan", "processes"),
    "tsan:unit": sanitizer("tsan", "unit"),
    "tsan:contract": sanitizer("tsan", "contract"),
    "sizes:unit": all_sizes("unit", "package"),
    "sizes:contract": all_sizes("contract"),
    "sizes:processes": all_sizes("processes", "example"),
    "sizes:python": python,
    "long:unit": long_tests("unit", lambda test: test.is_of({"unit"}) and "proof" not in test.labels),
    "long:proofs": long_tests("proofs", lambda test: "proof" in test.labels),
    "long:contract": long_tests("contract", lambda test: test.is_of({"contract"})),
    "long:groups": long_tests("groups", lambda test: test.is_of({"processes/group"})),
    "long:operations": long_tests("operations", lambda test: test.name == "each_operation_test"),
    "long:soak": long_tests("soak", lambda test: test.name in {"soak_test", "thousand_ranks_test"}),
    "rest": rest_of_dev,
    "neighbours": neighbours,
    "consumers": consumers,
    "files": each_file,
    "release": release,
    "shared": shared_library,
    "commands": commands,
    "docs": docs,
    "wheel": wheel,
    "pip": pip_install,
    "fuzz:fuzzers": fuzz(lambda test: "planted" not in test.name, "fuzzers"),
    "fuzz:planted": fuzz(lambda test: "planted" in test.name, "planted"),
    "torch:plugin": torch_tests.plugin,
    "torch:libtorch": torch_tests.libtorch,
    "torch:tsan": torch_tests.tsan,
    "torch:conformance": torch_tests.conformance,
    "peers": torch_tests.peers,
    **{f"mpi:{name}": mpi_tests.part(name) for name in mpi_tests.OTHERS},
    "mpi:large": mpi_tests.large,
    **compiler_tests.PARTS,
    "integrations": integration,
    "rust": rust,
    "dockerfile": dockerfile,
    **aarch64_tests.PARTS,
    "aarch64:wheel": aarch64_wheel.wheel,
}


def parts_named(words):
    """The parts of these names; a word without a colon names all that begin with it. None: all."""
    if not words:
        return list(PARTS)
    found = [name for word in words for name in PARTS if name == word or name.startswith(f"{word}:")]
    if unknown := [word for word in words if not any(name == word or name.startswith(f"{word}:") for name in PARTS)]:
        raise Failed(f"no such part: {' '.join(unknown)}; there are {' '.join(PARTS)}")
    return found


def run_parts(names, results, phases, only_changed=False):
    files = changed_files(begin_of_change()) if only_changed else None
    labels = None if files is None else own_labels(files)
    before = dict(os.environ)
    for name in names:
        say(f"part {list(PARTS).index(name) + 1} of {len(PARTS)}: {name}")
        with phases.phase(f"part {name}"), results.step(name):
            PARTS[name](Run(results, phases, labels))
        os.environ.clear()  # a part may have chosen its own rotation
        os.environ.update(before)


def command(words, only_changed):
    names = parts_named(words)
    only_once()
    results, phases = Results(), Phases()
    run_parts(names, results, phases, only_changed)
    phases.report()
    return results.count(may_be_empty=only_changed)
