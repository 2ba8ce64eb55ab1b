"""What ./dev does, once the packages of the section core are installed."""

import argparse
import os
import signal
import subprocess
import sys
import traceback

import benching
import checking
import demo
import parts
import site_build
import testing
from building import build, configure, configure_and_build
from console import BUILD, ROOT, Failed, Phases, need, only_once, run, say
from results import Results

COUNTING = {"test", "ci"}  # commands whose last line is a count


def test_command(arguments):
    if arguments.what[:1] == ["full"]:
        return parts.command(arguments.what[1:], arguments.changed)
    if arguments.what:
        raise Failed("./dev test, ./dev test --changed, or ./dev test full [parts]")
    return testing.command(arguments.changed)


def ci_command(_):
    """What must hold before a change lands."""
    only_once()
    results, phases = Results(), Phases()
    with phases.phase("./dev check"), results.step("./dev check"):
        need("core", "tests", "check")
        results.outcome("./dev check", checking.command())
    with phases.phase("./dev test"), results.step("./dev test"):
        testing.test(results, phases)
    number = int((ROOT / ".ci" / "part").read_text(encoding="utf-8"))
    chosen = list(parts.PARTS)[number % len(parts.PARTS)]
    with phases.phase("sanitizers of the change"):
        others = [name for name in parts.parts_named(parts.SANITIZERS) if name != chosen]
        parts.run_parts(others, results, phases, only_changed=True)
    with phases.phase("planted faults of the change"), results.step("planted faults"):
        results.outcome("planted faults of the change",
                        run(sys.executable, ROOT / "tools" / "planted_faults.py", "run", "--changed", "--limit", 120))
    parts.run_parts([chosen], results, phases)
    phases.report()
    return results.count()


def build_command(arguments):
    if arguments.preset != "release":
        need("tests", *(["fuzz"] if arguments.preset == "fuzz" else []))
    if not configure_and_build(arguments.preset, *arguments.targets):
        raise Failed("the build failed")
    return True


def demo_command(_):
    demo.demo()
    return True


def check_command(arguments):
    need("core", "tests", "check")
    return checking.command(arguments.fix)


def docs_command(_):
    return site_build.command()


def bench_command(arguments):
    """Peers are installed and measured unless the arguments say against what. Without arguments, with --full and with
    --docs: grids (benching.py)."""
    words = arguments.words
    grid = benching.grid_of(words)
    if grid and not grid.measures:
        return benching.measure_grid(grid)
    names = {word.partition("=")[0] for word in words}
    peers = ["--against", "openmpi,mpich,impi,gloo"]
    if names & {"--against", "--against-build", "-h", "--help"}:
        peers = []
    else:
        need("bench")
    if "--backend" in names:
        peers = []
    kernels = "ON" if "--device" in names else "OFF"  # of GPUs: ./dev demo does without them
    if not configure("release", f"-DTUTTI_CUDA_KERNELS={kernels}") or not build("release", ["tutti_bench_programs"]):
        raise Failed("the build failed")
    # Peers that live in the virtual environment are found there.
    os.environ.setdefault("I_MPI_ROOT", str(BUILD / "venv"))
    if grid:
        return benching.measure_grid(grid)
    say("tutti bench")
    sys.stdout.flush()
    os.execv(BUILD / "release" / "bin" / "tutti", ["tutti", "bench", *peers, *words])


def wheels_command(arguments):
    need("core", "python", "wheel")
    return run(sys.executable, ROOT / "tools" / "build_wheels.py", *arguments.words)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Failed(f"{message}; see {self.prog} --help")


def parser():
    top = Parser(prog="./dev", description="The one entry for people.")
    commands = top.add_subparsers(dest="command", required=True)

    def add(name, function, text):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        return command

    add("demo", demo_command, "build a release, show every operation, train a model on 1, 2 and 4 processes")
    test = add("test", test_command, "build and run the tests of a change; `full`: everything, or the parts that are named: "
               + " ".join(parts.PARTS))
    test.add_argument("what", nargs="*", metavar="full [parts]")
    test.add_argument("--changed", action="store_true", help="only what looks at the files that have changed")
    check = add("check", check_command, "format, lint, layers, documentation, error texts, planted faults, budget")
    check.add_argument("--fix", action="store_true", help="format the sources")
    presets = add("build", build_command, "build a preset, or only the targets of it that are named")
    presets.add_argument("preset", nargs="?", default="dev", help="dev, release, asan, tsan, fuzz, ...: CMakePresets.json")
    presets.add_argument("targets", nargs="*")
    for name, function, text in [
            ("bench", bench_command, "build a release and run `tutti bench`, beside Open MPI, MPICH, Intel MPI and Gloo; --docs: write the figures"),
            ("wheels", wheels_command, "build wheels for all Pythons that are here into dist/, and try each; --torch: also tutti-torch")]:
        commands.add_parser(name, help=text, add_help=False).set_defaults(function=function)
    add("docs", docs_command, "check the documentation, and build its site into build/docs/html")
    add("ci", ci_command, "what must hold before a change lands: check, test, sanitizers of the change, one part of full")
    return top


def main():
    arguments, words = parser().parse_known_args()
    if arguments.command in ("bench", "wheels"):
        arguments.words = words
    elif arguments.command == "test" and not any(word.startswith("-") for word in words):
        arguments.what += words  # after --changed
    elif words:
        raise Failed(f"{arguments.command}: no such option: {' '.join(words)}")
    return 0 if arguments.function(arguments) else 1


def told(error):
    """Says what went wrong; the exit status."""
    if isinstance(error, KeyboardInterrupt):
        print("dev: interrupted", file=sys.stderr)
        return 130
    if isinstance(error, (Failed, OSError, subprocess.SubprocessError)):
        print(f"dev: {error}", file=sys.stderr)
    else:
        traceback.print_exc()
    return 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what runs in the background is stopped
    try:
        sys.exit(main())
    except (Exception, KeyboardInterrupt) as error:  # the last line is a count, whatever goes wrong
        status = told(error)
        if COUNTING.intersection(sys.argv[1:2]):
            print("0 passed, 1 failed")
        sys.exit(status)
