import subprocess
import sys
import unittest

from planted import ROOT, PlantedTree

GTEST = """<testsuites><testsuite name="Suite">
<testcase name="Passes" status="run" result="completed"/>
<testcase name="Skips" status="run" result="skipped"><skipped message=""/></testcase>
{more}
</testsuite></testsuites>"""


class CountTests(PlantedTree):
    def count(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "tools" / "count_tests.py", *arguments],
                              capture_output=True, text=True, timeout=20, check=False)
        self.printed = done.stdout
        return done.returncode, done.stdout.splitlines()[-1]

    def plant_ctest(self, *cases):
        inside = "".join(f'<testcase name="{name}" status="{status}">{inner}</testcase>'
                         for name, status, inner in cases)
        self.plant("ctest.xml", f"<testsuite>{inside}</testsuite>")

    def test_cases_of_a_program_count_one_by_one(self):
        self.plant_ctest(("a", "run", ""), ("b", "run", ""))
        self.plant("test-results/a.xml", GTEST.format(more=""))
        self.assertEqual(self.count(self.root), (0, "2 passed, 0 failed, 1 skipped"))

    def test_failed_case(self):
        self.plant_ctest(("a", "fail", "<failure/>"))
        self.plant("test-results/a.xml", GTEST.format(
            more='<testcase name="Fails" status="run" result="completed"><failure/></testcase>'))
        self.assertEqual(self.count(self.root), (1, "1 passed, 1 failed, 1 skipped"))

    def test_says_why(self):
        self.plant_ctest(("a", "fail", "<failure/>"),
                         ("b", "fail", '<failure message="Failed"/>'
                          "<system-out>first\nkilled by 11</system-out>"))
        self.plant("test-results/a.xml", GTEST.format(
            more='<testcase name="Fails" status="run" result="completed">'
                 '<failure message="one is not two"/></testcase>'))
        self.count(self.root)
        self.assertIn("Suite.Fails\n    one is not two\n", self.printed)
        self.assertIn(": b\n    first\n    killed by 11\n", self.printed)

    def test_crash_after_the_last_case_is_a_failure(self):
        self.plant_ctest(("a", "fail", "<failure/>"))
        self.plant("test-results/a.xml", GTEST.format(more=""))
        self.assertEqual(self.count(self.root), (1, "1 passed, 1 failed, 1 skipped"))

    def test_program_that_died_without_results(self):
        self.plant_ctest(("a", "fail", "<failure/>"))
        self.assertEqual(self.count(self.root), (1, "0 passed, 1 failed"))

    def test_program_that_is_missing_is_a_failure(self):
        self.plant_ctest(("a", "notrun", '<skipped message="Unable to find executable"/>'))
        self.assertEqual(self.count(self.root), (1, "0 passed, 1 failed"))

    def test_skip_by_exit_status(self):
        self.plant_ctest(("a", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'),
                         ("b", "run", ""))
        self.assertEqual(self.count(self.root), (0, "1 passed, 0 failed, 1 skipped"))

    def test_pytest_file_is_added(self):
        self.plant_ctest(("a", "run", ""))
        self.plant("pytest.xml", "<testsuites><testsuite><testcase name='x'/><testcase name='y'>"
                                 "<failure/></testcase></testsuite></testsuites>")
        self.assertEqual(self.count(self.root, self.root / "pytest.xml"),
                         (1, "2 passed, 1 failed"))

    def test_missing_results_are_a_failure(self):
        self.assertEqual(self.count(self.root / "pytest.xml"), (1, "0 passed, 1 failed"))

    def test_failures_from_elsewhere(self):
        self.plant_ctest(("a", "run", ""))
        self.assertEqual(self.count("--broken", "2", self.root), (1, "1 passed, 2 failed"))

    def test_nothing_at_all_is_no_success(self):
        self.plant_ctest()
        self.assertEqual(self.count(self.root), (1, "0 passed, 0 failed"))


if __name__ == "__main__":
    unittest.main()
