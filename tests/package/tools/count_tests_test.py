import re
import sys
import unittest

from planted import ROOT, PlantedTree, run

import allowed_skips

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

FAILS = '<testcase name="Fails" status="run" result="completed"><failure message="one is not two"/></testcase>'
NO_CASE = "nothing"  # in place of the results
A_FAILED, B_RAN = ("a", "fail", "<failure/>"), ("b", "run", "")
# By name: what ctest tells, what stands in the results of program a beside a case that passes and one that is skipped
# (None: it has left none), and what is counted.
PROGRAMS = {
    "cases of a program count one by one": ([("a", "run", ""), B_RAN], "", 0, "2 passed, 0 failed, 1 skipped"),
    "a failed case": ([A_FAILED], FAILS.replace(' message="one is not two"', ""), 1, "1 passed, 1 failed, 1 skipped"),
    "a crash after the last case": ([A_FAILED], "", 1, "1 passed, 1 failed, 1 skipped"),
    "a program that died without results": ([A_FAILED], None, 1, "0 passed, 1 failed"),
    "a program that ran no case": ([("a", "run", ""), B_RAN], NO_CASE, 1, "1 passed, 1 failed"),
    "a program that is missing": ([("a", "notrun", '<skipped message="Unable to find executable"/>')], None, 1, "0 passed, 1 failed"),
    "a skip by exit status": ([("a", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>'), B_RAN], None,
                              0, "1 passed, 0 failed, 1 skipped"),
}
NO_SUN = "<skipped message='no sun here'/>"
# By name: the skipped tests of a file of pytest beside one that passes, what is counted, and what is told.
SKIPPED = {
    "a reason that is not listed": (["<skipped message='too lazy'>t.py:3: too lazy</skipped>"], 1, "1 passed, 1 failed",
                                    ["m::s0\n", "too lazy", "does not list this reason"]),
    "a reason that stands in the text": (["<skipped message='collection skipped'>Skipped: no moon here</skipped>"],
                                         0, "1 passed, 0 failed, 1 skipped", []),
    "more skips than allowed": (["<skipped message='no moon here'/>"] * 2, 1, "1 passed, 1 failed, 1 skipped",
                                ["only 1 such skips are allowed"]),
    "a skip that another result may have": (["<skipped message='elsewhere only'/>"], 1, "1 passed, 1 failed",
                                            ["allowed in other only"]),
    "a skip that the machine needs": ([NO_SUN], 0, "1 passed, 0 failed, 1 skipped", []),
}


class CountTests(PlantedTree):
    def setUp(self):
        super().setUp()
        self.plant("skips.toml", SKIPS.format(unless="false"))
        self.ctest, self.pytest = self.root / "ctest/unit.xml", self.root / "pytest.xml"

    def assert_counted(self, status, counts, *arguments):
        done = run(sys.executable, ROOT / "tools" / "count_tests.py", "--builds", self.root,
                   "--skips", self.root / "skips.toml", *arguments)
        self.printed = done.stdout
        self.assertTrue(self.printed, done.stderr)
        self.assertEqual((done.returncode, done.stdout.splitlines()[-1]), (status, counts))

    def plant_ctest(self, *cases):
        inside = "".join(f'<testcase name="{name}" status="{status}">{inner}</testcase>'
                         for name, status, inner in cases)
        self.plant("ctest/unit.xml", f"<testsuite>{inside}</testsuite>")

    def test_programs(self):
        for name, (cases, more, status, counts) in PROGRAMS.items():
            with self.subTest(name):
                self.setUp()
                self.plant_ctest(*cases)
                if more is not None:
                    self.plant("test-results/a.xml", "<testsuites/>" if more == NO_CASE else GTEST.format(more=more))
                self.assert_counted(status, counts, self.ctest)

    def test_says_why(self):
        self.plant_ctest(A_FAILED, ("b", "fail", '<failure message="Failed"/><system-out>first\nkilled by 11</system-out>'))
        self.plant("test-results/a.xml", GTEST.format(more=FAILS))
        self.assert_counted(1, "1 passed, 2 failed, 1 skipped", self.ctest)
        self.assertIn("Suite.Fails\n    one is not two\n", self.printed)
        self.assertIn(": b\n    first\n    killed by 11\n", self.printed)
        self.assertLess(self.printed.index("slowest tests"), self.printed.index("Suite.Fails"))

    def assert_skips(self, skips, status, counts, told):
        cases = "".join(f"<testcase classname='m' name='s{number}'>{skip}</testcase>"
                        for number, skip in enumerate(skips))
        self.plant("pytest.xml", f"<testsuite><testcase name='x'/>{cases}</testsuite>")
        self.assert_counted(status, counts, self.pytest)
        for text in told:
            self.assertIn(text, self.printed)

    def test_skips(self):
        for name, row in SKIPPED.items():
            with self.subTest(name):
                self.assert_skips(*row)
        self.plant("skips.toml", SKIPS.format(unless="true"))
        self.assert_skips([NO_SUN], 1, "1 passed, 1 failed", ["this machine can run it"])

    def test_disabled_test_is_a_skip_too(self):
        self.plant_ctest(("a", "run", ""))
        self.plant("test-results/a.xml", "<testsuites><testsuite name='S'><testcase name='DISABLED_T' "
                                         "status='notrun' result='suppressed'/></testsuite></testsuites>")
        self.assert_counted(1, "0 passed, 1 failed", self.ctest)

    def test_the_table_of_the_repository_can_be_read(self):
        self.plant("pytest.xml", "<testsuite><testcase name='x'/></testsuite>")
        done = run(sys.executable, ROOT / "tools" / "count_tests.py", self.pytest)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_slowest_are_shown(self):
        tests = "".join(f"<testcase name='t{number:02}' status='run' time='{number}.5'/>" for number in range(5, 25))
        self.plant("ctest/unit.xml", f"<testsuite>{tests}</testsuite>")
        self.plant("pytest.xml", "<testsuite><testcase classname='m' name='p' time='12.25'/></testsuite>")
        self.plant("dev/.ninja_log", "# ninja log v7\n0\t9000\t1\ta.o\tff\n10\t2010\t2\ta.o\tff\n"
                                     "0\t4000\t2\tb.o\tfe\n")
        self.assert_counted(0, "21 passed, 0 failed", self.ctest, self.pytest)
        lines = [line.split(" s  ")[-1].split(": ")[-1].strip() for line in self.printed.splitlines()]
        slow = [f"t{number:02}" for number in range(24, 5, -1)]
        self.assertEqual([line for line in lines if line.startswith("t") and line[1:].isdigit()], slow)
        self.assertIn("   12.25 s  pytest: m::p\n", self.printed)
        self.assertIn("    4.00 s  dev: b.o\n      2.00 s  dev: a.o\n", self.printed)

    def test_several_results(self):
        self.assert_counted(1, "0 passed, 0 failed")  # nothing at all is no success
        self.assert_counted(1, "0 passed, 1 failed", self.pytest)  # it is missing
        self.plant_ctest(B_RAN)
        self.assert_counted(1, "1 passed, 2 failed", "--broken", "a build", "--broken", "a check", self.ctest)
        self.plant("pytest.xml", "<testsuites><testsuite><testcase name='x'/><testcase name='y'>"
                                 "<failure/></testcase></testsuite></testsuites>")
        self.assert_counted(1, "2 passed, 1 failed", self.ctest, self.pytest)
        self.plant_ctest()  # without tests, beside others that pass
        self.plant("pytest.xml", "<testsuite><testcase name='x'/></testsuite>")
        self.assert_counted(1, "1 passed, 1 failed", self.ctest, self.pytest)


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
