"""What the tests of one command came to: files of results, and failures that no file tells."""

import contextlib
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

from console import BUILD, ROOT, Failed, run

sys.path.append(str(ROOT / "tools"))

import count_tests  # noqa: E402


def tells_failure(file):
    """Will count_tests.py count a failure?"""
    try:
        states = {state for _, state, _ in count_tests.cases_of(file)}
    except (OSError, ElementTree.ParseError):
        return True
    return not states or "failed" in states


class Results:
    def __init__(self):
        self.files = []
        self.whole = []  # what has passed and no file of results tells: a build, a check
        self.broken = []  # what has failed, likewise

    def add(self, file, well):
        """The results of a program; `well`: its exit status is 0."""
        self.files.append(file)
        if not well and not tells_failure(file):
            self.failed(f"{file.stem}: the program failed, and its results tell no failure")

    def failed(self, what):
        print(f"FAILED: {what}", flush=True)
        self.broken.append(what)

    def outcome(self, what, well):
        if well:
            self.whole.append(what)
        else:
            self.failed(what)

    @contextlib.contextmanager
    def step(self, name):
        """A step that cannot go on counts as a failure, and the next one runs."""
        try:
            yield
        except (Failed, OSError, subprocess.SubprocessError) as error:
            self.failed(f"{name}: {error}")

    def new_file(self, name):
        """The path of a file of results that does not exist yet."""
        path = BUILD / "results" / f"{name}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return path

    def count(self, may_be_empty=False):
        """Prints the failures and, as the last line, the count; True if all is well."""
        sys.stdout.flush()
        if may_be_empty and not (self.files or self.whole or self.broken):
            print("0 passed, 0 failed", flush=True)
            return True
        return run(sys.executable, ROOT / "tools" / "count_tests.py", f"--whole={len(self.whole)}",
                   *(f"--broken={what}" for what in self.broken), *self.files)
