import contextlib
import importlib.util
import io
import pathlib
import unittest
import unittest.mock

from planted import ROOT, PlantedTree

SPEC = importlib.util.spec_from_file_location("planted_faults", ROOT / "tools" / "planted_faults.py")
tool = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(tool)

ROW = """[[fault]]
id = "os.a-fault"
file = "src/os/a.cpp"
what = "One is added twice."
find = "a + 1"
replace = "a + 2"
test = "a_test"
filter = "Adding.IsRight/*"
"""


class TheList(PlantedTree):
    def setUp(self):
        super().setUp()
        self.plant("src/os/a.cpp", "int add(int a) { return a + 1; }\n")
        self.plant("tests/unit/os/CMakeLists.txt", "tutti_add_test(NAME a_test SOURCES a_test.cpp)\n")
        self.plant("tests/unit/os/a_test.cpp", "TEST(Adding, IsRight) {}\n")
        self.plant("tests/python/a_test.py", "def test_adding():\n    pass\n")
        self.plant("tests/README.md", f"# Tests\n\n{tool.BEGIN}\n{tool.END}\n\nBehind.\n")
        self.rows(ROW)

    def rows(self, text):
        self.plant("tests/planted/os.toml", text)
        done = self.run_tool("planted_faults", "table", "--write")
        self.assertEqual(done.returncode, 0, done.stderr)

    def assert_trouble(self, text):
        done = self.run_tool("planted_faults", "check")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn(text, done.stdout)

    def assert_none(self):
        done = self.run_tool("planted_faults", "check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_right_list_is_clean(self):
        self.assert_none()
        page = (self.root / "tests" / "README.md").read_text()
        self.assertIn("| os.a-fault | One is added twice. | `a_test Adding.IsRight/*` |", page)
        self.assertTrue(page.endswith("\nBehind.\n"))

    def test_a_text_that_is_gone_or_stands_twice_is_told(self):
        self.plant("src/os/a.cpp", "int add(int a) { return 1 + a; }\n")
        self.assert_trouble("stands 0 times in src/os/a.cpp")
        self.plant("src/os/a.cpp", "int add(int a) { return a + 1; }\nint b(int a) { return a + 1; }\n")
        self.assert_trouble("stands 2 times in src/os/a.cpp")

    def test_a_test_that_is_gone_is_told(self):
        self.rows(ROW.replace('"a_test"', '"b_test"'))
        self.assert_trouble("there is no test b_test")
        self.rows(ROW.replace("IsRight", "IsWrong"))
        self.assert_trouble("no test is called IsWrong")

    def test_tests_in_python_are_looked_for_too(self):
        row = "".join(line + "\n" for line in ROW.splitlines() if not line.startswith("filter"))
        self.rows(row.replace('"a_test"', '"tests/python/a_test.py::test_adding"'))
        self.assert_none()
        self.rows(row.replace('"a_test"', '"tests/python/a_test.py::test_taking_away"'))
        self.assert_trouble("has no test test_taking_away")

    def test_a_page_that_differs_is_told(self):
        self.plant("tests/planted/os.toml", ROW.replace("twice", "three times"))
        self.assert_trouble("the table differs")

    def test_rows_must_be_whole(self):
        for wrong, told in [(ROW + ROW, "stands there twice"), (ROW.replace("what", "why"), "misses ['what']"),
                            (ROW.replace("a + 2", "a + 1"), "changes nothing"),
                            (ROW.replace("src/os/a.cpp", "src/os/b.cpp"), "there is no src/os/b.cpp"),
                            (ROW + 'preset = "release"\n', "preset is one of")]:
            with self.subTest(told):
                self.rows(wrong)
                self.assert_trouble(told)


class PlantedCopy:
    """In place of the copy that is built: says what became of a file with a fault in it."""

    def __init__(self, tree, trouble=None, passed=False):
        self.tree = tree
        self.trouble = trouble
        self.passed = passed
        self.seen = None

    def build(self, checks):
        self.seen = (self.tree / "src" / "os" / "a.cpp").read_text()
        return self.trouble

    def run(self, check, limit):
        return tool.Outcome(self.passed, 1.0, "[  FAILED  ] Adding.IsRight (0 ms)\n")


class Planting(PlantedTree):
    def setUp(self):
        super().setUp()
        self.plant("src/os/a.cpp", "int add(int a) { return a + 1; }\n")
        self.plant("tests/planted/os.toml", ROW)
        (self.fault,) = tool.read_faults(self.root)

    def assert_told(self, text, **behaviour):
        copy = PlantedCopy(self.root, **behaviour)
        self.assertEqual(tool.plant(copy, self.fault, 10)[0], text)
        self.assertEqual(copy.seen, "int add(int a) { return a + 2; }\n")
        self.assertEqual((self.root / "src/os/a.cpp").read_text(), "int add(int a) { return a + 1; }\n")

    def test_a_test_that_fails_has_found_it(self):
        self.assert_told("found by Adding.IsRight")

    def test_a_test_that_passes_has_not(self):
        self.assert_told("NOT FOUND", passed=True)

    def test_a_fault_that_does_not_build_is_none(self):
        self.assert_told("DOES NOT BUILD", trouble="error: no such thing")

    def test_cases_are_counted(self):
        self.assertEqual(tool.Outcome(True, 1.0, "[  PASSED  ] 3 tests.\n").cases_run(), 3)
        self.assertEqual(tool.Outcome(True, 1.0, "[  PASSED  ] 0 tests.\n").cases_run(), 0)
        self.assertEqual(tool.Outcome(True, 1.0, "12 passed, 1 skipped in 3.01s\n").cases_run(), 12)
        self.assertEqual(tool.Outcome(True, 1.0, "1 skipped in 0.01s\n").cases_run(), 0)

    def test_a_gating_fault_is_sought_without_more_cases(self):
        with unittest.mock.patch.dict("os.environ", {"TUTTI_LONG_TESTS": "1", "TUTTI_ROTATION": "5", "OTHER": "1"}):
            for runs, long in [("gating", None), ("long", "1")]:
                environment = tool.environment_of(runs)
                self.assertEqual(environment.get("TUTTI_LONG_TESTS"), long)
                self.assertNotIn("TUTTI_ROTATION", environment)
                self.assertEqual(environment["OTHER"], "1")

    def test_an_unknown_id_is_told(self):
        with contextlib.redirect_stdout(io.StringIO()), self.assertRaisesRegex(SystemExit, "no such fault: os.b"):
            tool.cmd_run(pathlib.Path(self.root), ["os.b"], None)


if __name__ == "__main__":
    unittest.main()
