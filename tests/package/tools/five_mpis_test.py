"""What five_mpis.py says of a program's output. A script stands for tuttirun."""

from planted import FolderTest

import five_mpis

OK = "[  PASSED  ] 1 test.\n"
NONE = "[  PASSED  ] 0 tests.\n"
FAILED = NONE + "[  FAILED  ] 1 test, listed below:\n"


class FiveMpis(FolderTest):
    def outcome(self, text, status=0, name=""):
        self.plant("tuttirun", f"#!/bin/sh\ncat <<'END'\n{text}END\nexit {status}\n", executable=True)
        return five_mpis.run(self.root, "libmpi.so", 2, 20, ["program"], name).wrong

    def test_each_rank_must_pass(self):
        self.assertEqual(self.outcome(2 * OK), "")
        self.assertEqual(self.outcome(OK), "exit code 0, 1 of 2 ranks passed")

    def test_a_failure_is_told_though_no_test_has_passed(self):
        self.assertEqual(self.outcome(2 * FAILED, 1), "exit code 1, tests failed")
        self.assertEqual(self.outcome(2 * NONE), "no test was run")

    def test_large_counts_must_take_memory(self):
        self.assertIn("memory", self.outcome(2 * OK, name="large"))

    def test_a_killed_rank_fails_the_job(self):
        self.assertEqual(self.outcome("", 137, "killed"), "")
        self.assertNotEqual(self.outcome("", 0, "killed"), "")
