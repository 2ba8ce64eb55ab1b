"""A small tree of files in a temporary folder, and a tool run over it.

    planted.py NAME_test    runs the tests of this module
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
# The tools as modules.
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "tools/dev", "tests/processes/backend")]


def run(*words, **options):
    """A program to its end, with the options of subprocess.run."""
    return subprocess.run(words, **{"capture_output": True, "text": True, "timeout": 60, "check": False, **options})


def is_gone(process):
    """It is no more, or has ended and waits for its parent to hear of it."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def ended(process):
    """Ends within 10 s, or has: its new parent may have yet to hear of it."""
    until = time.monotonic() + 10
    while not is_gone(process) and time.monotonic() < until:
        time.sleep(0.01)
    return is_gone(process)


class FolderTest(unittest.TestCase):
    """In a temporary folder, `root`, in which `plant` writes files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def plant(self, name, text, executable=False):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        if executable:
            path.chmod(0o755)
        return path

    def patch(self, *modules, **values):
        """Until the end of the test."""
        for module in modules:
            patch = unittest.mock.patch.multiple(module, **values)
            patch.start()
            self.addCleanup(patch.stop)

    def git(self, *words):
        return run("git", "-c", "user.name=n", "-c", "user.email=e", *words, cwd=self.root, check=True).stdout.strip()

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")
        return self.git("rev-parse", "HEAD")


class PlantedTree(FolderTest):
    """`run_tool` runs a tool of tools/ with --root over the planted files."""

    def setUp(self):
        super().setUp()
        (self.root / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "layers.toml", self.root / "tools")

    def replace(self, name, old, new):
        """In a file that is there."""
        text = (self.root / name).read_text(encoding="utf-8")
        self.assertIn(old, text)
        self.plant(name, text.replace(old, new))

    def run_tool(self, tool, *arguments):
        return run(sys.executable, ROOT / "tools" / f"{tool}.py", "--root", self.root, *arguments)

    def assert_told(self, tool, fault, *arguments):
        """None: the tool tells of no fault."""
        done = self.run_tool(tool, *arguments)
        self.assertEqual(done.returncode, 0 if fault is None else 1, done.stdout + done.stderr)
        self.assertIn(fault or "", done.stdout)

    def assert_clean(self, tool):
        self.assert_told(tool, None)

    def assert_fault(self, tool, text):
        self.assert_told(tool, text)

    def assert_rows(self, tool, rows):
        """By name: files that are planted in a tree of their own, and the fault that the tool tells of them."""
        for name, (files, fault) in rows.items():
            with self.subTest(name):
                self.setUp()
                for path, text in files.items():
                    self.plant(path, text)
                self.assert_told(tool, fault)


if __name__ == "__main__":
    unittest.main(module=sys.argv.pop(1))
