"""tools/fuzz.py: seeds say the same when they are read again, and a fuzzer's end is told apart."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

import fuzz  # noqa: E402  (the path must be set first)

QUIET = "#!/bin/sh\necho 'DONE exec/s: 1'\n"
FINDS = "#!/bin/sh\necho 'ERROR: here'\necho 'Test unit written to ./crash-1'\nexit 77\n"
BROKEN = "#!/bin/sh\nexit 1\n"


class Fuzz(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.seeds = self.folder / "seeds.txt"

    def status(self, command, text, *options):
        program = self.folder / "program"
        program.write_text(text, encoding="ascii")
        program.chmod(0o755)
        done = subprocess.run([sys.executable, TOOLS / "fuzz.py", command, "--seconds", "1",
                               "--work", self.folder / "work", *options, program],
                              stdout=subprocess.DEVNULL, check=False)
        return done.returncode

    def test_seeds(self):
        given = [b"", b"# no comment", b"a\"b'c\\", bytes(range(256)), b"env://\n\0"]
        lines = ["# a comment"] + [fuzz.escape(seed) for seed in given[1:]]
        self.seeds.write_text("\n".join(lines) + "\n", encoding="ascii")
        self.assertEqual(fuzz.read_seeds(self.seeds), given[1:])

    def test_run(self):
        self.seeds.write_text("a\nb\n", encoding="ascii")
        options = ["--long", "1", "--seeds", self.seeds]
        self.assertEqual(self.status("run", QUIET, *options), 0)
        self.assertEqual(self.status("run", FINDS, *options), 1)

    def test_must_find(self):
        self.assertEqual(self.status("must-find", FINDS), 0)
        self.assertEqual(self.status("must-find", QUIET), 1)
        self.assertEqual(self.status("must-find", BROKEN), 1)


if __name__ == "__main__":
    unittest.main()
