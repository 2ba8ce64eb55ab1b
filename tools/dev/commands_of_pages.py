"""The commands that the pages tell a reader to type, in a release build."""

import os
import sys

from console import BUILD, ROOT, run, say

COMMANDS = [
    "./dev demo",
    "./dev build release tuttirun readme_program",
    "build/release/bin/tuttirun --nproc-per-node 4 build/release/bin/readme_program",
    "./dev build release tutti_cli",
    "build/release/bin/tutti doctor",
    "./dev bench all_reduce --ranks 2 --sizes 8 --rounds 1 --against none",
]
LIMIT = 600


def stands_on_a_page(command):
    pages = [ROOT / "README.md", ROOT / "apps/bench/README.md", *(ROOT / "docs").rglob("*.md")]
    return any(command.removeprefix("build/release/bin/") in page.read_text(encoding="utf-8") for page in pages)


def run_commands(results, phases):
    say("commands of the pages")
    # A reader has no variables of ours, and doctor says so of those that do nothing.
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "TUTTI_ROTATION", "TUTTI_LONG_TESTS")}
    for command in COMMANDS:
        print(command, flush=True)
        if not stands_on_a_page(command):
            results.failed(f"no page shows `{command}`")
            continue
        with phases.phase("commands of the pages"):
            results.outcome(command, run(sys.executable, ROOT / "tools" / "run_with_stacks.py", "--timeout", LIMIT, "--", "bash",
                                         "-c", command, env=environment, log=BUILD / "command.log"))
