"""A small tree of files in a temporary folder, and a tool run over it."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]


class PlantedTree(unittest.TestCase):
    """`plant` writes files, `run_tool` runs a tool of tools/ with --root over them."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "tools").mkdir()
        shutil.copy(ROOT / "tools" / "layers.toml", self.root / "tools")

    def plant(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def run_tool(self, tool, *arguments):
        return subprocess.run(
            [sys.executable, ROOT / "tools" / f"{tool}.py", "--root", self.root, *arguments],
            capture_output=True, text=True, timeout=20, check=False)

    def assert_clean(self, tool):
        done = self.run_tool(tool)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_fault(self, tool, text):
        done = self.run_tool(tool)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(text, done.stdout)
