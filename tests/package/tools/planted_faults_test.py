import contextlib
import io
import unittest.mock

from planted import PlantedTree

import planted_copy
import planted_faults as tool
import planted_list
import planted_results

ROW = """["src/os/a.cpp".os.a-fault]
what = "One is added twice."
change = ['a + 1', 'a + 2']
test = "a_test Adding.IsRight/*"
"""
OTHER = """
["src/os/b.cpp".os.other-fault]
what = "One is taken away."
change = ['b + 1', 'b - 1']
test = "b_test"
"""
PYTHON = """
["src/os/a.cpp".os.third-fault]
what = "Nothing is added."
change = ['+ 1', '+ 0']
test = "tests/python/a_test.py::test_adding"
"""
OTHER_CHANGE = ("src/os/b.cpp", "int add(int b) { return (b + 1); }\n")


class FaultTree(PlantedTree):
    """Two sources with their tests, in C++ and Python."""

    def setUp(self):
        super().setUp()
        for name, text in {
                "src/os/a.cpp": "int add(int a) { return a + 1; }\n", "src/os/b.cpp": "int add(int b) { return b + 1; }\n",
                "tests/unit/os/CMakeLists.txt": "tutti_add_test(NAME a_test SOURCES a_test.cpp)\n"
                                                "tutti_add_test(NAME b_test SOURCES b_test.cpp c_test.cpp\n  TIMEOUT 9)\n",
                "tests/unit/os/a_test.cpp": "TEST(Adding, IsRight) {}\n",
                "tests/unit/os/b_test.cpp": "TEST(Adding, IsRightToo) {}\n",
                "tests/unit/os/c_test.cpp": "TEST(Adding, IsRightAgain) {}\n",
                "tests/python/a_test.py": "def test_adding():\n    pass\n"}.items():
            self.plant(name, text)
        self.rows(ROW)

    def rows(self, text):
        self.plant("tests/planted/os.toml", text)

    def faults(self):
        return planted_list.read_faults(self.root)


class TheList(FaultTree):
    def assert_trouble(self, text):
        """None: there is none."""
        self.assert_told("planted_faults", text, "check")

    def test_a_right_list_is_clean(self):
        self.assert_trouble(None)
        self.assertIn("| os.a-fault | One is added twice. | `a_test Adding.IsRight/*` |",
                      self.run_tool("planted_faults", "table").stdout)

    def test_a_text_that_is_gone_or_stands_twice_is_told(self):
        for text, times in (("return 1 + a", 0), ("return a + 1; }\nint b(int a) { return a + 1", 2)):
            self.plant("src/os/a.cpp", f"int add(int a) {{ {text}; }}\n")
            self.assert_trouble(f"stands {times} times in src/os/a.cpp")

    def test_a_test_that_is_gone_is_told(self):
        for row, old, new, told in ((ROW, '"a_test', '"d_test', "there is no test d_test"),
                                    (ROW, "IsRight", "IsWrong", "a_test has no IsWrong"),
                                    (PYTHON, "test_adding", "test_adding", None),
                                    (PYTHON, "test_adding", "test_taking_away", "has no test test_taking_away")):
            self.rows(row.replace(old, new))
            self.assert_trouble(told)

    def test_rows_must_be_whole(self):
        again = ROW.replace("a.cpp", "b.cpp").replace("a + 1", "b + 1")
        for wrong, told in [(ROW + again, "stands there twice"), (ROW.replace("what", "why"), "misses ['what']"),
                            (ROW.replace("a + 2", "a + 1"), "changes nothing"),
                            (ROW.replace("src/os/a.cpp", "src/os/c.cpp"), "there is no src/os/c.cpp"),
                            (ROW + 'preset = "release"\n', "preset is one of")]:
            with self.subTest(told):
                self.rows(wrong)
                self.assert_trouble(told)

    def test_a_test_stands_in_the_sources_that_its_build_file_names_or_in_its_folder(self):
        folder = self.root / "tests" / "unit" / "os"
        with open(folder / "CMakeLists.txt", "a") as file:
            file.write("tutti_add_ranks_test(NAME again PROGRAM b_test RANKS 2)\nmade_somehow(NAME other)\n")
        tests = planted_list.Tests(self.root)
        for test, names in [("a_test", ["a_test.cpp"]), ("b_test", ["b_test.cpp", "c_test.cpp"]),
                            ("again.2", ["b_test.cpp", "c_test.cpp"]),
                            ("other", ["CMakeLists.txt", "a_test.cpp", "b_test.cpp", "c_test.cpp"])]:
            self.assertEqual([path.name for path in tests.sources(test)], names)
        self.assertEqual(tests.sources("tests/python/a_test.py::test_adding"), [self.root / "tests/python/a_test.py"])


class PlantedCopy:
    """In place of the copy that is built: says what became of a file with a fault in it."""

    def __init__(self, tree, trouble=None, passed=False):
        self.tree = tree
        self.trouble = trouble
        self.passed = passed
        self.seen = []

    def build(self, checks):
        self.seen.append((self.tree / "src" / "os" / "a.cpp").read_text())
        return self.trouble

    def run(self, check, limit):
        return planted_copy.Outcome(self.passed, 1.0, "[  FAILED  ] Adding.IsRight (0 ms)\n")


class Planting(FaultTree):
    def test_what_becomes_of_a_fault_is_told(self):
        for text, behaviour in (("found by Adding.IsRight", {}), ("NOT FOUND", {"passed": True}),
                                ("DOES NOT BUILD", {"trouble": "error: no such thing"})):
            (fault,) = self.faults()
            copy = PlantedCopy(self.root, **behaviour)
            self.assertEqual(tool.plant(copy, fault, 10)[0], text)
            self.assertEqual(copy.seen, ["int add(int a) { return a + 2; }\n"])
            self.assertEqual((self.root / "src/os/a.cpp").read_text(), "int add(int a) { return a + 1; }\n")

    def test_cases_are_counted(self):
        for text, count in [("[  PASSED  ] 3 tests.\n", 3), ("[  PASSED  ] 0 tests.\n", 0),
                            ("12 passed, 1 skipped in 3.01s\n", 12), ("1 skipped in 0.01s\n", 0)]:
            self.assertEqual(planted_copy.Outcome(True, 1.0, text).cases_run(), count)

    def test_a_gating_fault_is_sought_without_more_cases(self):
        with unittest.mock.patch.dict("os.environ", {"TUTTI_LONG_TESTS": "1", "TUTTI_ROTATION": "5", "OTHER": "1"}):
            for runs, long in [("gating", None), ("long", "1")]:
                environment = planted_copy.environment_of(runs)
                self.assertEqual(environment.get("TUTTI_LONG_TESTS"), long)
                self.assertNotIn("TUTTI_ROTATION", environment)
                self.assertEqual(environment["OTHER"], "1")


class CopyThatFinds(PlantedCopy):
    """Finds the faults in a.cpp, but not those in b.cpp. Its tests pass where there is none."""

    def __init__(self, root):
        super().__init__(root)
        self.without = (root / "src/os/a.cpp").read_text()

    def sync(self):
        pass

    def configure(self, preset, faults):
        pass

    def runs_as_told(self, check):
        return True

    def run(self, check, limit):
        whole = (self.tree / "src/os/a.cpp").read_text() == self.without
        return planted_copy.Outcome(whole, 1.0, "[  PASSED  ] 1 test." if whole else "[  FAILED  ] Adding.IsRight")


class Runs(FaultTree):
    def setUp(self):
        super().setUp()
        self.rows(ROW + OTHER + PYTHON)

    def run_it(self, *arguments):
        told = io.StringIO()
        with contextlib.redirect_stdout(told), unittest.mock.patch.object(tool, "Copy", CopyThatFinds), \
                unittest.mock.patch("sys.argv", ["planted_faults", "--root", str(self.root), "run", *arguments]):
            status = tool.main()
        return status, told.getvalue()

    def test_an_unknown_id_is_told(self):
        with self.assertRaisesRegex(SystemExit, "no such fault: os.b"):
            self.run_it("os.b")

    def test_what_was_found_is_not_planted_again(self):
        status, told = self.run_it()
        self.assertEqual((status, told.count("found by Adding.IsRight"), told.count("NOT FOUND")), (1, 2, 1), told)
        _, told = self.run_it()
        self.assertIn("2 of 3 faults were found before", told)
        self.assertIn("0 of 1 planted faults were found", told)
        status, told = self.run_it("os.a-fault", "--again")
        self.assertEqual((status, told.count("found by Adding.IsRight")), (0, 1), told)

    def test_what_changes_is_planted_again(self):
        for change in [lambda: self.rows(ROW.replace("a + 2", "a + 3") + OTHER + PYTHON),
                       lambda: self.plant("tests/unit/os/a_test.cpp", "TEST(Adding, IsRight) { }\n"),
                       lambda: self.plant("src/os/a.cpp", "int add(int a) { return (a + 1); }\n")]:
            self.run_it("os.a-fault")
            self.assertNotIn("found by", self.run_it("os.a-fault")[1])
            change()
            self.assertIn("found by", self.run_it("os.a-fault")[1])

    def test_a_run_ends_when_its_time_is_over_but_not_before_it_has_planted_one(self):
        status, told = self.run_it("--limit", "0")
        self.assertEqual(status, 0)
        self.assertIn("1 of 1 planted faults were found", told)
        self.assertIn("2 faults were left out: the time was over", told)

    def test_the_report_counts_by_command(self):
        self.rows(ROW + OTHER + PYTHON + ROW.replace("a-fault", "race").replace("a + 2", "a") + 'preset = "tsan"\n')
        self.run_it("os.a-fault", "os.other-fault")
        told = planted_results.report(planted_results.Results(self.root), self.faults())
        self.assertIn("| `./dev test: dev` | 2 | 1 | 1 | 0 |\n| `./dev test: Python` | 1 | 0 | 0 | 1 |\n"
                      "| `./dev test full tsan` | 1 | 0 | 0 | 1 |", told)
        self.assertIn("`./dev test` finds 1 of 4 faults: 25 %.", told)


class Changes(FaultTree):
    """--changed: the faults of which something changed since the last commit that landed."""

    def setUp(self):
        super().setUp()
        self.rows(ROW + OTHER + PYTHON)
        self.git("init", "-q")
        for number in (1, 2):
            self.plant(".ci/part", f"{number}\n")
            self.commit()
        self.assertEqual(self.changed(), set())

    def changed(self, since=None):
        tests = planted_list.Tests(self.root)
        return {fault.id for fault in tool.changed_faults(self.root, tests, self.faults(), since)}

    def test_a_source_a_test_or_a_row_has_changed(self):
        a_test = ("tests/unit/os/a_test.cpp", "TEST(Adding, IsRight) { }\n")
        for files, faults in ((dict([OTHER_CHANGE]), {"os.other-fault"}),
                              (dict([OTHER_CHANGE, a_test]), {"os.a-fault", "os.other-fault"}),
                              ({"tests/python/a_test.py": "def test_adding():\n    return\n"}, {"os.third-fault"}),
                              ({"tests/planted/os.toml": ROW + OTHER.replace("b - 1", "b + 2") + PYTHON}, {"os.other-fault"})):
            self.git("checkout", "-q", ".")
            for name, text in files.items():
                self.plant(name, text)
            self.assertEqual(self.changed(), faults)

    def test_changes_count_until_the_part_is_raised_twice(self):
        self.plant(*OTHER_CHANGE)
        self.commit()
        self.plant(".ci/part", "3\n")
        self.commit()
        self.assertEqual(self.changed(), {"os.other-fault"})
        self.plant(".ci/part", "4\n")
        self.commit()
        self.assertEqual(self.changed(), set())
        self.assertEqual(self.changed(since="HEAD~3"), {"os.other-fault"})

    def test_without_history_every_fault_counts(self):
        self.git("checkout", "-q", "--orphan", "other")
        self.commit()
        self.assertEqual(self.changed(), {"os.a-fault", "os.other-fault", "os.third-fault"})
        with self.assertRaisesRegex(SystemExit, "no such commit: nothing"):
            self.changed(since="nothing")
