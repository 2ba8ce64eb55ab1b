"""tools/fuzz.py: seeds say the same when they are read again, and a fuzzer's end is told apart."""

import sys

from planted import ROOT, FolderTest, run

import fuzz

QUIET = "#!/bin/sh\necho 'DONE exec/s: 1'\n"
FINDS = "#!/bin/sh\necho 'ERROR: here'\necho 'Test unit written to ./crash-1'\nexit 77\n"
TELLS = f"""#!{sys.executable}
import sys
stack = next(line for line in open("/proc/self/maps") if "[stack]" in line)
print("ERROR:", *sys.argv[1:], "stack 0x" + stack.split("-")[1].split()[0])
print("Test unit written to ./crash-1")
sys.exit(77)
"""
BROKEN = "#!/bin/sh\nexit 1\n"


class Fuzz(FolderTest):
    def status(self, command, text, *options):
        return self.run_tool(command, text, *options).returncode

    def run_tool(self, command, text, *options):
        program = self.plant("program", text, executable=True)
        return run(sys.executable, ROOT / "tools" / "fuzz.py", command, "--work", self.root / "work", *options, program)

    def test_seeds(self):
        given = [b"", b"# no comment", b"a\"b'c\\", bytes(range(256)), b"env://\n\0"]
        lines = ["# a comment"] + [fuzz.escape(seed) for seed in given[1:]]
        self.assertEqual(fuzz.read_seeds(self.plant("seeds.txt", "\n".join(lines) + "\n")), given[1:])

    def test_run(self):
        options = ["--seconds", "1", "--long", "1", "--seeds", self.plant("seeds.txt", "a\nb\n")]
        self.assertEqual(self.status("run", QUIET, *options), 0)
        self.assertEqual(self.status("run", FINDS, *options), 1)

    def test_must_find(self):
        self.assertEqual(self.status("must-find", FINDS, "--runs", "7"), 0)
        self.assertEqual(self.status("must-find", QUIET, "--runs", "7"), 1)
        self.assertEqual(self.status("must-find", BROKEN, "--runs", "7"), 1)

    def test_must_find_is_the_same_search_each_time(self):
        # What a fuzzer does depends on its options and on where the kernel has put it.
        told = {self.run_tool("must-find", TELLS, "--runs", "7").stdout for _ in range(3)}
        self.assertEqual(len(told), 1)
        self.assertRegex(told.pop(), r"-seed=1 -runs=7 .*stack 0x[0-9a-f]+")
