"""The commands that the pages tell a reader to type, in a release build."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from console import BUILD, ROOT, say

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
    suite = ElementTree.Element("testsuite")
    # A reader has no variables of ours, and doctor says so of those that do nothing.
    environment = {name: value for name, value in os.environ.items() if name not in ("TUTTI_ROTATION", "TUTTI_LONG_TESTS")}
    environment.pop("CI", None)
    for command in COMMANDS:
        print(command, flush=True)
        case = ElementTree.SubElement(suite, "testcase", name=command)
        with phases.phase("commands of the pages"), open(BUILD / "command.log", "w+", encoding="utf-8") as log:
            done = subprocess.run([sys.executable, ROOT / "tools" / "run_with_stacks.py", "--timeout", str(LIMIT), "--", "bash",
                                   "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.STDOUT, check=False)
            log.seek(0)
            output = log.read()
        if not stands_on_a_page(command):
            ElementTree.SubElement(case, "failure", message="no page shows this command")
        elif done.returncode != 0:
            print(output)
            ElementTree.SubElement(case, "failure", message=f"exit status {done.returncode}")
    file = results.new_file("commands")
    ElementTree.ElementTree(suite).write(file)
    results.add(file, True)
