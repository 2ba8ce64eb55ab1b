"""./dev check: what can be seen without building."""

import os
import subprocess
import sys

import budget
import testing
from building import configure
from changed import PART, last_commit, raises
from console import ROOT, run, say

sys.path.append(str(ROOT / "tools"))

import tree  # noqa: E402

TOOLS = {"lint": ["lint.py"], "layers": ["check_layers.py"], "docs": ["check_docs.py"], "sentences": ["check_sentences.py"],
         "error texts": ["check_errors.py"], "planted faults": ["planted_faults.py", "check"]}


def formatted(fix):
    files = [name for name in tree.files(ROOT) if name.endswith((".hpp", ".cpp"))]
    how = ["-i"] if fix else ["--dry-run", "--Werror"]
    half = len(files) // 2
    running = [subprocess.Popen(["clang-format-14", *how, *part], cwd=ROOT, stdin=subprocess.DEVNULL) for part in (files[:half], files[half:])]
    return all([process.wait() == 0 for process in running])


def part_is_raised():
    """The last commit of a push raises the number in .ci/part by one: it chooses what runs, and where a change begins."""
    commit, before, after = next(iter(raises()), (None, None, None))
    if commit != last_commit():
        print(f"the last commit, {last_commit()[:7] or 'unknown'}, does not raise the number in {PART}")
    elif before is not None and after != before + 1:
        print(f"{PART} goes from {before} to {after}, not up by one")
    else:
        return True
    return False


def command(fix=False):
    """True if all is well."""
    well = True
    say("format")
    well &= formatted(fix)
    for name, (tool, *arguments) in TOOLS.items():
        say(name)
        well &= run(sys.executable, ROOT / "tools" / tool, *arguments)
    say("budget of the tests")
    well &= configure("dev") and budget.check(testing.largest_stages())
    if os.environ.get("CI"):
        say("number of the part")
        well &= part_is_raised()
    say("all checks passed" if well else "CHECK FAILED")
    return well
