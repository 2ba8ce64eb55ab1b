"""What the tests of one command came to: files of results, and failures that no file tells."""

import sys

from console import BUILD, ROOT, run


class Results:
    def __init__(self):
        self.files = []
        self.broken = 0  # failures that no file of results tells: a build, a check

    def add(self, file):
        self.files.append(file)

    def failed(self, what):
        print(f"FAILED: {what}", flush=True)
        self.broken += 1

    def new_file(self, name):
        """The path of a file of results that does not exist yet."""
        path = BUILD / "results" / f"{name}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return path

    def count(self):
        """Prints the failures and, as the last line, the count; True if all is well."""
        sys.stdout.flush()
        return run(sys.executable, ROOT / "tools" / "count_tests.py", "--broken", self.broken, *self.files)
