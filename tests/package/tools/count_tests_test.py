import re
import subprocess
import sys
import unittest

from planted import ROOT, PlantedTree

sys.path.insert(0, str(ROOT / "tools"))

import allowed_skips  # noqa: E402

# Each is a failure where all tests run: what the text names is installed then, or it is the program of a test.
NEVER_ALLOWED = r"\./dev deps python|\./dev test (?:python|full)|^cloudpickle|^tqdm|^ml_dtypes|^not today$|not all run$|^since torch 2\.14"

GTEST = """<testsuites><testsuite name="Suite">
<testcase name="Passes" status="run" result="completed"/>
<testcase name="Skips" status="run" result="skipped"><skipped message="a.cpp:1&#x0A;no moon here"/></testcase>
{more}
</testsuite></testsuites>"""
SKIPS = """
[[skip]]
reason = "no moon here"
most = 1
[[skip]]
reason = "SKIP_RETURN_CODE=77"
most = 1
[[skip]]
reason = "no sun here"
most = 9
unless = "{unless}"
[[skip]]
reason = "elsewhere only"
most = 9
in = ["other"]
"""


class CountTests(PlantedTree):
    def setUp(self):
        super().setUp()
        self.plant("skips.toml", SKIPS.format(unless="false"))

    def count(self, *arguments):
        done = subprocess.run([sys.executable, ROOT / "tools" / "count_tests.py", "--builds", self.root,
                               "--skips", self.root / "skips.toml", *arguments],
                              capture_output=True, text=True, timeout=20, check=False)
        self.printed = done.stdout
        self.assertTrue(self.printed, done.stderr)
        return done.returncode, done.stdout.splitlines()[-1]

    def plant_ctest(self, *cases):
        inside = "".join(f'<testcase name="{name}" status="{status}">{inner}</testcase>'
                         for name, status, inner in cases)
        self.plant("ctest/unit.xml", f"<testsuite>{inside}</testsuite>")

    def test_cases_of_a_program_count_one_by_one(self):
        self.plant_ctest(("a", "run", ""), ("b", "run", ""))
        self.plant("test-results/a.xml", GTEST.format(more=""))
        self.assertEqual(self.count(self.root / "ctest/unit.xml"), (0, "2 passed, 0 failed, 1 skipped"))

    def test_failed_case(self):
        self.plant_ctest(("a", "fail", "<failure/>"))
        self.plant("test-results/a.xml", GTEST.format(
            more='<testcase name="Fails" status="run" result="completed"><failure/></testcase>'))
        self.assertEqual(self.count(self.root / "ctest/unit.xml"), (1, "1 passed, 1 failed, 1 skipped"))

    def test_says_why(self):
        self.plant_ctest(("a", "fail", "<failure/>"),
                         ("b", "fail", '<failure message="Failed"/>'
                          "<system-out>first\nkilled by 11</system-out>"))
        self.plant("test-results/a.xml", GTEST.format(
            more='<testcase name="Fails" status="run" result="completed">'
                 '<failure message="one is not two"/></testcase>'))
        self.count(self.root / "ctest/unit.xml")
        self.assertIn("Suite.Fails\n    one is not two\n", self.printed)
        self.assertIn(": b\n    first\n    killed by 11\n", self.printed)
        self.assertLess(self.printed.index("slowest tests"), self.printed.index("Suite.Fails"))

    def test_crash_after_the_last_case_is_a_failure(self):
        self.plant_ctest(("a", "fail", "<failure/>"))
        self.plant("test-results/a.xml", GTEST.format(more=""))
        self.assertEqual(self.count(self.root / "ctest/unit.xml"), (1, "1 passed, 1 failed, 1 skipped"))

    def test_program_that_died_without_results(self):
        self.plant_ctest(("a", "fail", "<failure/>"))
        self.assertEqual(self.count(self.root / "ctest/unit.xml"), (1, "0 passed, 1 failed"))

    def test_program_that_is_missing_is_a_failure(self):
        self.plant_ctest(("a", "notrun", '<skipped message="Unable to find executable"/>'))
        self.assertEqual(self.count(self.root / "ctest/unit.xml"), (1, "0 passed, 1 failed"))

    def test_skip_by_exit_status(self):
        self.plant_ctest(("a", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'),
                         ("b", "run", ""))
        self.assertEqual(self.count(self.root / "ctest/unit.xml"), (0, "1 passed, 0 failed, 1 skipped"))

    def count_skips(self, *skips):
        """Of a file of pytest with one test that passes and one that is skipped with each of these elements."""
        cases = "".join(f"<testcase classname='m' name='s{number}'>{skip}</testcase>"
                        for number, skip in enumerate(skips))
        self.plant("pytest.xml", f"<testsuite><testcase name='x'/>{cases}</testsuite>")
        return self.count(self.root / "pytest.xml")

    def test_unlisted_skip_is_a_failure(self):
        self.assertEqual(self.count_skips("<skipped message='too lazy'>t.py:3: too lazy</skipped>"),
                         (1, "1 passed, 1 failed"))
        self.assertIn("m::s0\n", self.printed)
        self.assertIn("too lazy", self.printed)
        self.assertIn("does not list this reason", self.printed)

    def test_skip_whose_reason_stands_in_its_text(self):
        self.assertEqual(self.count_skips("<skipped message='collection skipped'>Skipped: no moon here</skipped>"),
                         (0, "1 passed, 0 failed, 1 skipped"))

    def test_more_skips_than_allowed(self):
        self.assertEqual(self.count_skips(*["<skipped message='no moon here'/>"] * 2),
                         (1, "1 passed, 1 failed, 1 skipped"))
        self.assertIn("only 1 such skips are allowed", self.printed)

    def test_skip_that_another_result_may_have(self):
        self.assertEqual(self.count_skips("<skipped message='elsewhere only'/>"), (1, "1 passed, 1 failed"))
        self.assertIn("allowed in other only", self.printed)

    def test_skip_that_the_machine_does_not_need(self):
        self.assertEqual(self.count_skips("<skipped message='no sun here'/>"),
                         (0, "1 passed, 0 failed, 1 skipped"))
        self.plant("skips.toml", SKIPS.format(unless="true"))
        self.assertEqual(self.count_skips("<skipped message='no sun here'/>"), (1, "1 passed, 1 failed"))
        self.assertIn("this machine can run it", self.printed)

    def test_disabled_test_is_a_skip_too(self):
        self.plant_ctest(("a", "run", ""))
        self.plant("test-results/a.xml", "<testsuites><testsuite name='S'><testcase name='DISABLED_T' "
                                         "status='notrun' result='suppressed'/></testsuite></testsuites>")
        self.assertEqual(self.count(self.root / "ctest/unit.xml"), (1, "0 passed, 1 failed"))

    def test_the_table_of_the_repository_can_be_read(self):
        self.plant("pytest.xml", "<testsuite><testcase name='x'/></testsuite>")
        done = subprocess.run([sys.executable, ROOT / "tools" / "count_tests.py", self.root / "pytest.xml"],
                              capture_output=True, text=True, timeout=20, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_slowest_are_shown(self):
        tests = "".join(f"<testcase name='t{number:02}' status='run' time='{number}.5'/>" for number in range(5, 25))
        self.plant("ctest/unit.xml", f"<testsuite>{tests}</testsuite>")
        self.plant("pytest.xml", "<testsuite><testcase classname='m' name='p' time='12.25'/></testsuite>")
        self.plant("dev/.ninja_log", "# ninja log v7\n0\t9000\t1\ta.o\tff\n10\t2010\t2\ta.o\tff\n"
                                     "0\t4000\t2\tb.o\tfe\n")
        self.assertEqual(self.count(self.root / "ctest/unit.xml", self.root / "pytest.xml"), (0, "21 passed, 0 failed"))
        lines = [line.split(" s  ")[-1].split(": ")[-1].strip() for line in self.printed.splitlines()]
        slow = [f"t{number:02}" for number in range(24, 5, -1)]
        self.assertEqual([line for line in lines if line.startswith("t") and line[1:].isdigit()], slow)
        self.assertIn("   12.25 s  pytest: m::p\n", self.printed)
        self.assertIn("    4.00 s  dev: b.o\n      2.00 s  dev: a.o\n", self.printed)

    def test_pytest_file_is_added(self):
        self.plant_ctest(("a", "run", ""))
        self.plant("pytest.xml", "<testsuites><testsuite><testcase name='x'/><testcase name='y'>"
                                 "<failure/></testcase></testsuite></testsuites>")
        self.assertEqual(self.count(self.root / "ctest/unit.xml", self.root / "pytest.xml"),
                         (1, "2 passed, 1 failed"))

    def test_missing_results_are_a_failure(self):
        self.assertEqual(self.count(self.root / "pytest.xml"), (1, "0 passed, 1 failed"))

    def test_failures_from_elsewhere(self):
        self.plant_ctest(("a", "run", ""))
        self.assertEqual(self.count("--broken", "a build", "--broken", "a check", self.root / "ctest/unit.xml"), (1, "1 passed, 2 failed"))

    def test_nothing_at_all_is_no_success(self):
        self.assertEqual(self.count(), (1, "0 passed, 0 failed"))

    def test_a_result_without_tests_is_a_failure_beside_others_that_pass(self):
        self.plant_ctest()
        self.plant("pytest.xml", "<testsuite><testcase name='x'/></testsuite>")
        self.assertEqual(self.count(self.root / "ctest/unit.xml", self.root / "pytest.xml"), (1, "1 passed, 1 failed"))


class Reasons(unittest.TestCase):
    def test_those_in_the_tests_are_listed(self):
        calls = (r'pytest\.skip\(f?"([^"]*)"', r'reason=f?"([^"]*)"', r'GTEST_SKIP\(\) << "([^"]*)"', r'kNoNamespaces =\s*"([^"]*)"',
                 r'kNeedsRoot\[\] =\s*"([^"]*)"', r'NO_TORCH = "([^"]*)"')
        known = [entry.reason for entry in allowed_skips.AllowedSkips().entries]
        found, unlisted = 0, []
        for path in sorted((ROOT / "tests").rglob("*_test.*")) + sorted((ROOT / "tests").rglob("*.hpp")) + [
                ROOT / "tests/python/ranks.py"]:
            if path.suffix not in (".py", ".cpp", ".hpp") or path.name in ("plugin_test.py", "count_tests_test.py"):
                continue
            for reason in re.findall("|".join(calls), path.read_text(encoding="utf-8")):
                text = "".join(reason)
                found += 1
                if not re.search(NEVER_ALLOWED, text) and not any(
                        pattern.search(text) or pattern.pattern.startswith(text.strip()) for pattern in known):
                    unlisted.append(f"{path.relative_to(ROOT)}: {text}")
        self.assertGreater(found, 40)
        self.assertEqual(unlisted, [])


if __name__ == "__main__":
    unittest.main()
