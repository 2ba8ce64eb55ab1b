"""What ./dev test chooses: the begin of a change, the tests that look at it, sizes by rotation, parts of everything.
What ./dev bench measures, and its summary."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import unittest
import unittest.mock

from planted import ROOT, FolderTest, ended, run

import aarch64_tests
import bench_summary
import benching
import budget
import building
import changed
import checking
import console
import parts
import planted_list
import preset_tests
import selection
import testing
from results import Results


class Change(FolderTest):
    """In a repository of its own, where .ci/part is raised by some commits."""

    def setUp(self):
        super().setUp()
        self.patch(changed, console, checking, ROOT=self.root)
        self.git("init", "-q")
        self.commits = [self.commit(".ci/part", "1"), self.commit("src/os/a.cpp", "a"), self.commit(".ci/part", "2")]

    def commit(self, name, text):
        self.plant(name, text)
        return super().commit()

    def test_a_clean_tree_at_a_raise_begins_at_the_raise_before(self):
        self.assertEqual(changed.begin_of_change(), self.commits[0])
        self.assertEqual(changed.changed_files(self.commits[0]), [".ci/part", "src/os/a.cpp"])

    def test_what_is_not_committed_begins_at_the_last_raise(self):
        self.plant("new.txt", "n")
        self.assertEqual(changed.begin_of_change(), self.commits[2])
        self.assertEqual(changed.changed_files(self.commits[2]), ["new.txt"])

    def test_commits_after_a_raise_begin_at_it(self):
        self.commit("src/os/b.cpp", "b")
        self.assertEqual(changed.begin_of_change(), self.commits[2])

    def test_a_file_that_has_moved_concerns_both_places(self):
        self.git("mv", "src/os/a.cpp", "b.cpp")
        self.assertEqual(changed.changed_files(self.commits[2]), ["b.cpp", "src/os/a.cpp"])

    def test_a_header_of_tests_concerns_all_that_include_it(self):
        for name, text in {"unit/os/a.hpp": "", "unit/os/b_test.cpp": '#include "a.hpp"\n', "contract/group/c.hpp": '#include "unit/os/a.hpp"\n',
                           "processes/group/d_test.cpp": '#include <x>\n#include "contract/group/c.hpp"\n', "unit/store/e_test.cpp": ""}.items():
            self.plant(f"tests/{name}", text)
        self.assertEqual(changed.with_includers(["docs/a.md", "tests/unit/os/a.hpp"]),
                         ["docs/a.md", "tests/contract/group/c.hpp", "tests/processes/group/d_test.cpp", "tests/unit/os/a.hpp"])

    def test_without_history_everything_has_changed(self):
        self.git("checkout", "-q", "--orphan", "other")
        self.git("commit", "-q", "-m", "all")
        self.assertIsNone(changed.begin_of_change())
        self.assertEqual(changed.affected_labels(), (None, None))

    def test_a_commit_that_lowers_the_number_begins_no_change(self):
        self.git("revert", "--no-edit", "HEAD")
        self.assertFalse(checking.part_is_raised())
        self.assertEqual(changed.begin_of_change(), self.commits[2])
        self.commit(".ci/part", "2")
        self.assertEqual(changed.begin_of_change(), self.commits[2])

    def test_a_merge_is_no_commit(self):
        self.git("checkout", "-q", "--detach", self.commits[0])
        self.commit("docs/a.md", "what others pushed meanwhile")
        self.git("merge", "-q", "--no-ff", "-m", "merge", self.commits[2])
        self.assertTrue(checking.part_is_raised())
        self.assertEqual(changed.begin_of_change(), self.commits[0])

    def test_the_end_of_a_shallow_history_begins_no_change(self):
        clone = self.root / "clone"
        self.git("clone", "-q", "--depth", "2", self.root.as_uri(), str(clone))
        with unittest.mock.patch.object(console, "ROOT", clone):
            self.assertIsNone(changed.begin_of_change())

    def test_the_last_commit_of_a_push_raises_the_number_by_one(self):
        self.assertTrue(checking.part_is_raised())
        self.commit("src/os/b.cpp", "b")
        self.assertFalse(checking.part_is_raised())
        self.commit(".ci/part", "4")
        self.assertFalse(checking.part_is_raised())


class Labels(unittest.TestCase):
    TABLE = {"src/base": ["all"], "src/os": ["unit/os"], "src/os/deep": ["contract"], "docs": []}

    def of(self, *names):
        return changed.TestsOfFolders(self.TABLE).of_files(names)

    def test_what_files_concern(self):
        self.assertEqual(self.of("src/os/a.cpp", "docs/a.md"), {"unit/os"})
        self.assertEqual(self.of("src/os/deep/a.cpp"), {"contract"})  # the longest row counts
        self.assertEqual(self.of("tests/unit/os/a_test.cpp"), {"unit/os"})
        for everything in ("src/base/a.cpp", "somewhere/else", "tests/support/a.hpp"):
            self.assertIsNone(self.of(everything))

    def test_each_row_of_the_table_names_a_folder_and_tests_that_exist(self):
        rows = changed.TestsOfFolders().table
        for folder, labels in rows.items():
            self.assertTrue((ROOT / folder).exists(), folder)
            for label in labels:
                known = label in ("all", "python", "example", "pictures", "proof", "tools") or (ROOT / "tests" / label).is_dir()
                self.assertTrue(known, f"{folder}: {label}")

    def test_each_module_has_a_row(self):
        rows = changed.TestsOfFolders().table
        for path in (ROOT / "src").rglob("CMakeLists.txt"):
            name = path.parent.relative_to(ROOT).as_posix()
            self.assertTrue(name == "src" or any(name == row or name.startswith(f"{row}/") for row in rows), name)

    def test_sanitizers_run_the_tests_of_a_module(self):
        self.assertEqual(changed.own_labels(["docs/a.md", "src/os/a.cpp"]), {"unit/os", "contract/os", "processes/os"})
        self.assertIn("contract/group", changed.own_labels(["include/tutti/work.hpp"]))
        self.assertEqual(changed.own_labels(["tests/contract/group/a_test.cpp"]), {"contract/group"})

    def test_a_change_chooses_the_tests_that_find_faults_of_its_file(self):
        tests, chosen = planted_list.Tests(ROOT), changed.TestsOfFolders()
        looked_at = []
        for fault in planted_list.read_faults(ROOT):
            if fault.is_planted and (fault.preset, fault.runs) == ("dev", "gating"):
                labels = {path.relative_to(ROOT / "tests").parent.as_posix() for path in tests.sources(fault.test)}
                labels |= {"python"} if fault.is_python else set()
                of_change = chosen.of_files([fault.file])
                looked_at.append(fault.id)
                self.assertTrue(of_change is None or not labels.isdisjoint(of_change), f"{fault.file}: {fault.id}")
        self.assertGreater(len(looked_at), 100)


class Choice(unittest.TestCase):
    @staticmethod
    def of(*labels, name="a"):
        properties = [{"name": "LABELS", "value": list(labels)}]
        return selection.Test(1, {"name": name, "command": [], "properties": properties}, "/b", set())

    def rotation(self, number):
        patch = unittest.mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        return selection.Rotation(number)

    def test_one_of_the_other_sizes_runs(self):
        for number, taken in (("0", [True, False]), ("3", [False, True]), ("all", [True, True])):
            rotation = self.rotation(number)
            self.assertEqual([rotation.takes({f"size_{place}_of_2"}) for place in (0, 1)], taken)
        self.assertTrue(self.rotation("5").takes({"unit"}))

    def test_a_number_that_is_none_is_refused(self):
        for text in ("", "-1", "1.5", "every"):
            with self.assertRaises(console.Failed):
                self.rotation(text)

    def test_the_budget_counts_the_largest_size(self):
        sizes = budget.LargestSizes()
        self.assertEqual([sizes.takes({f"size_{place}_of_3"}) for place in range(3)], [False, False, True])

    def test_what_is_for_full_does_not_run(self):
        tests = [self.of("unit", "unit/os"), self.of("full", "unit"), self.of("contract", "size_1_of_2")]
        rotation = self.rotation("0")
        self.assertEqual(testing.chosen(tests, rotation), tests[:1])

    def test_what_seldom_changes_runs_when_it_or_its_tests_have(self):
        tests = [self.of("unit", "unit/plan"), self.of("unit", "unit/plan", "proof"), self.of("package", "package/tools", "tools")]
        for labels, taken in ((None, "111"), (set(), "100"), ({"unit/plan"}, "110"), ({"tools"}, "101"), ({"package/tools"}, "101")):
            kept = testing.without_the_unchanged(tests, labels)
            self.assertEqual("".join("1" if test in kept else "0" for test in tests), taken, labels)

    def test_a_budget_that_counts_nothing_is_refused(self):
        with unittest.mock.patch.object(budget, "output_of", return_value=None), self.assertRaises(console.Failed):
            budget.compilations_of("dev", ["bin/x"])
        with self.assertRaises(console.Failed):
            budget.preprocessed_lines("false -c a.cpp")

    def test_a_file_of_the_build_folder_is_a_target(self):
        entry = {"name": "a", "command": ["python3", "/b/bin/x", "--results", "/b/test-results/a.xml", "L=/b/lib/m.so"],
                 "properties": [{"name": "REQUIRED_FILES", "value": ["/b/lib/n.so"]}]}
        test = selection.Test(1, entry, "/b", {"bin/x", "lib/m.so", "lib/n.so", "bin/y"})
        self.assertEqual(test.targets, {"bin/x", "lib/m.so", "lib/n.so"})


class Preset(FolderTest):
    """A small project, whose preset filters its tests by a label."""

    def setUp(self):
        super().setUp()
        self.root = self.root / "with space"
        self.patch(console, ROOT=self.root)
        self.patch(building, selection, preset_tests, BUILD=self.root / "build")
        self.plant("CMakeLists.txt",
                   "cmake_minimum_required(VERSION 3.25)\nproject(small NONE)\nenable_testing()\n"
                   "add_custom_target(broken ALL COMMAND false)\n"
                   "foreach(name a b c d)\n  add_test(NAME ${name} COMMAND true)\nendforeach()\n"
                   "set_tests_properties(b d PROPERTIES LABELS asan)\n")
        self.plant("CMakePresets.json",
                   '{"version": 6, "configurePresets": [{"name": "asan", "generator": "Ninja", "binaryDir": "${sourceDir}/build/asan"}],'
                   ' "buildPresets": [{"name": "asan", "configurePreset": "asan"}],'
                   ' "testPresets": [{"name": "asan", "configurePreset": "asan", "filter": {"include": {"label": "asan"}}}]}')
        self.assertTrue(building.configure("asan"))
        self.results = Results()

    def run_quietly(self, stages):
        with contextlib.redirect_stdout(io.StringIO()) as told:
            preset_tests.run_stages("asan", stages, self.results, console.Phases())
        return told.getvalue()

    def test_the_tests_that_are_chosen_run(self):
        tests = selection.tests_of("asan")
        self.assertEqual([test.name for test in tests], ["b", "d"])
        self.run_quietly([preset_tests.Stage("first", tests[:1]), preset_tests.Stage("second", tests[1:])])
        self.assertEqual([preset_tests.names_in(file) for file in self.results.files], [{"b"}, {"d"}])
        self.assertEqual(self.results.broken, [])

    def test_a_test_that_does_not_run_is_a_failure(self):
        lost = selection.Test(7, {"name": "lost", "command": []}, "/b", set())
        self.assertIn("did not run: lost", self.run_quietly([preset_tests.Stage("first", [lost])]))
        self.assertEqual(len(self.results.broken), 1)

    def test_a_build_that_fails_is_a_failure(self):
        tests = selection.tests_of("asan")
        stages = [preset_tests.Stage("first", tests[:1]), preset_tests.Stage("second", tests[1:])]
        stages[1].targets = ["broken"]  # built in the background
        self.assertIn("FAILED: the build of asan: second", self.run_quietly(stages))
        self.assertEqual((len(self.results.broken), len(self.results.files)), (1, 1))

    def test_a_preset_without_a_list_of_tests_is_refused(self):
        with self.assertRaises(console.Failed):
            selection.tests_of("none")


class Running(FolderTest):
    """What keeps a failure from being lost."""

    def finished(self, function):
        child = console.Background(function, self.root / "a" / "log")
        with contextlib.redirect_stdout(io.StringIO()) as told:
            return child.finish(), told.getvalue()

    def test_what_fails_in_the_background_is_shown(self):
        self.assertEqual(self.finished(lambda: print("hidden") or True), (True, ""))
        self.assertEqual(self.finished(lambda: print("why")), (False, "why\n\n"))
        self.assertEqual(self.finished(lambda: 1 // 0), (False, "ZeroDivisionError: integer division or modulo by zero\n\n"))

    def test_what_runs_in_the_background_is_stopped_with_its_programs(self):
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        child = console.Background(lambda: console.run("sh", "-c", f"echo begun >&{writing}; exec sleep 600", pass_fds=[writing]),
                                   self.root / "log")
        os.close(writing)
        self.assertEqual(os.read(reading, 100), b"begun\n")
        child.stop()
        self.assertEqual(os.read(reading, 100), b"")  # nobody holds the other end

    def test_a_step_that_cannot_go_on_is_a_failure(self):
        results = Results()
        with contextlib.redirect_stdout(io.StringIO()):
            with results.step("a"):
                raise console.Failed("no package")
            with results.step("b"):
                console.run("/no/such/program")
        self.assertEqual(results.broken[0], "a: no package")
        self.assertIn("/no/such/program", results.broken[1])

    def test_a_program_that_fails_beside_results_that_are_well_is_a_failure(self):
        with contextlib.redirect_stdout(io.StringIO()):
            for text, well, broken in (("<testcase name='x'/>", True, 0), ("<testcase name='x'/>", False, 1), ("", False, 0),
                                       ("<testcase name='x'><failure/></testcase>", False, 0)):
                results = Results()
                results.add(self.plant("a.xml", f"<testsuite>{text}</testsuite>"), well)
                self.assertEqual(len(results.broken), broken, text)
            results.add(self.root / "missing.xml", False)
            self.assertEqual(results.broken, [])

    def test_only_a_choice_by_change_may_choose_nothing(self):
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertTrue(Results().count(may_be_empty=True))
            self.assertFalse(Results().count())
            whole = Results()
            whole.outcome("a build", True)
            self.assertTrue(whole.count())
            broken = Results()
            broken.outcome("a build", False)
            self.assertFalse(broken.count(may_be_empty=True))

    def test_who_is_interrupted_ends_what_it_runs(self):
        with self.assertRaises(KeyboardInterrupt):
            with console.started("sh", "-c", "sleep 60 & echo $!; wait", stdout=subprocess.PIPE, text=True) as process:
                below = int(process.stdout.readline())
                raise KeyboardInterrupt
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertTrue(ended(below))

    def test_an_environment_whose_making_was_interrupted_is_made_again(self):
        self.plant("build/venv/bin/python", "", executable=True)
        script = f"""root=$PWD; source "{ROOT}/tools/dev/dependencies.sh"; apt_deps() {{ :; }}; section() {{ :; }}
                     /usr/bin/python3() {{ echo "$*"; }}; pip_deps none"""
        for pip, told in ((False, f"-m venv {self.root}/build/venv\n"), (True, "")):
            if pip:
                self.plant("build/venv/bin/pip", "", executable=True)
            done = run("bash", "-c", script, cwd=self.root)
            self.assertEqual(done.stdout, told, done.stderr)

    def test_a_package_that_is_there_for_two_architectures_is_not_installed_again(self):
        self.plant("tools/apt-packages.txt", "[some]\nhere\nthere:other\nonly-there\n")
        script = f"""source "{ROOT}/tools/dev/dependencies.sh"; dpkg() {{ echo native; }}; say() {{ echo "$*"; exit; }}
                     dpkg-query() {{ [ "${{@: -1}}" = only-there ] || echo installed native; echo installed other; }}; apt_deps some"""
        self.assertEqual(run("bash", "-c", script, cwd=self.root).stdout, "installing with apt: only-there\n")

    def test_two_runs_in_one_tree_are_refused(self):
        with unittest.mock.patch.object(console, "BUILD", self.root):
            console.only_once()
            with self.assertRaisesRegex(console.Failed, "run already"):
                console.only_once()


class Parts(unittest.TestCase):
    def test_what_the_emulator_cannot_run_exists(self):
        text = "".join(file.read_text(encoding="utf-8") for kind in ("unit", "contract") for file in (ROOT / "tests" / kind).rglob("*.cpp"))
        for case in aarch64_tests.left_out().removeprefix("-").split(":"):
            suite, name = next(word for word in case.split("/") if "." in word).split(".")
            self.assertRegex(text, rf"TEST(_[FP])?\({suite}, {name}\)")

    def test_a_word_names_all_parts_that_begin_with_it(self):
        self.assertEqual(parts.parts_named(["tsan"]), ["tsan:unit", "tsan:contract"])
        self.assertEqual(parts.parts_named(["tsan:unit", "pip"]), ["tsan:unit", "pip"])
        self.assertEqual(parts.parts_named([]), list(parts.PARTS))

    def test_an_unknown_part_is_refused(self):
        with self.assertRaisesRegex(console.Failed, "no such part: quick"):
            parts.parts_named(["asan", "quick"])

    def test_commands_end_with_a_count_or_a_reason(self):
        for words, text in ((["test", "quick"], "0 passed, 1 failed"), (["test", "full", "quick"], "no such part: quick"),
                            (["test", "full", "--changed", "quick"], "no such part: quick"), (["test", "--part"], "0 passed, 1 failed"),
                            (["check", "--long"], "no such option: --long")):
            done = run(sys.executable, ROOT / "tools" / "dev" / "main.py", *words)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stdout + done.stderr)


class Bench(FolderTest):
    """The grids of ./dev bench and their summary."""

    @staticmethod
    def document(*points, rounds=5, others=0.0, **settings):
        """Of points (operation, ranks, bytes, ratio)."""
        return {"mode": "loop", "rounds": rounds, "libraries": [], **settings,
                "points": [{"operation": operation, "ranks": ranks, "bytes": count, "state": "near", "others_cpu": others,
                            "ratio": ratio, "best_peer": "impi", "libraries": {"tutti": {"us": 2 * ratio}}}
                           for operation, ranks, count, ratio in points]}

    def rows(self, *documents):
        """The words of each line of the summary, by the first."""
        lines = list(bench_summary.summary(bench_summary.Figures(documents)))
        return {line.strip().split("  ")[0]: line.split() for line in lines if line.strip()}

    def test_a_group_has_the_geometric_mean_and_the_worst_cell(self):
        rows = self.rows(self.document(("all_reduce", 2, 8, 0.5), ("all_reduce", 2, 4096, 2.0), ("send_recv", 4, 8, 0.25),
                                       ("send_recv", 4, 100, 3.0)))
        self.assertEqual(rows["all cells"][2:6], ["3", "0.63", "1", "2.00"])  # (0.5 * 2 * 0.25) ^ (1 / 3)
        self.assertEqual(rows["all_reduce"][1:5], ["2", "1.00", "1", "2.00"])
        self.assertEqual(rows["8 bytes, all operations"][4:6], ["2", "0.35"])
        self.assertEqual(rows["random sizes"][2:4], ["1", "3.00"])

    def test_a_cell_is_the_median_of_the_files_that_count(self):
        cell = ("barrier", 2, 0)
        calm = [self.document((*cell, ratio)) for ratio in (1.0, 1.2, 5.0)]
        busy = self.document((*cell, 9.0), others=0.2)
        for documents, ratio in (([*calm, busy, busy], 1.2), ([busy], 9.0), ([*calm, self.document((*cell, 0.9), rounds=15)], 0.9)):
            figures = bench_summary.Figures(documents)
            self.assertEqual([figures.ratio(one) for one in figures.measured], [ratio])

    def test_hosts_are_a_table_with_the_goal_of_their_links(self):
        settings = {"hosts": 2, "network": "1Gbit,1ms"}
        # 8 bytes there and back take 2 ms, and 2 * 98 bytes at 1 Gbit/s.
        (cell,) = bench_summary.Figures([self.document(("send_recv", 2, 8, 1.0), **settings)]).measured
        self.assertAlmostEqual(bench_summary.ideal_us(cell, *bench_summary.link_of("1Gbit,1ms")), 2000 + 2 * 98 * 8e-3)
        alone = self.document(("send_recv", 2, 8, 1.1), ("all_reduce", 2, 8, 1.1), mode="sync", **settings)
        alone["points"][0]["libraries"]["tutti"]["us"] = 2400
        rows = self.rows(alone, self.document(("send_recv", 2, 8, 1.4), **settings))
        self.assertEqual(rows["2 hosts, 1Gbit,1ms"][3:8], ["3", "1.10", "1.40", "3", "1.40"])
        self.assertEqual(rows["beyond 1.05 x (delay + bytes with headers) + 100 us: 1 of 2 cells"][-4:], ["1", "of", "2", "cells"])

    def test_what_has_no_ratio_is_named(self):
        document = self.document(("barrier", 2, 0, 1.0))
        del document["points"][0]["ratio"]
        document["libraries"] = [{"library": "impi", "ranks": 2, "failure": "not installed\nmore"}]
        rows = self.rows(document)
        self.assertIn("shared memory: barrier 0, 2 ranks: no ratio", rows)
        self.assertIn("shared memory: impi, 2 ranks: not installed", rows)

    def test_cells_that_are_behind_are_measured_again_as_before(self):
        figures = bench_summary.Figures([self.document(("all_reduce", 4, 8, 1.1), ("all_reduce", 4, 64, 1.2), ("barrier", 4, 0, 0.9),
                                                       hosts=2, network="1Gbit,1ms", mode="sync")])
        (again,) = benching.again_pieces(figures)
        for words in ("all_reduce --sizes 8,64 --ranks 4 ", "--rounds 15 --mode sync", "--hosts 2 --network 1Gbit,1ms"):
            self.assertIn(words, " ".join(again.words))

    def test_pieces_have_names_of_their_own(self):
        names = [one.name for one in benching.full_pieces()]
        self.assertEqual(len(set(names)), len(names))

    def test_an_interrupted_run_names_what_it_has_not_measured_and_goes_on(self):
        pieces = [benching.Piece(name, []) for name in ("a", "b", "c")]
        (self.root / "a.json").touch()

        def interrupted(*_):
            raise KeyboardInterrupt

        def measured(*words):
            words[-1].touch()
            return True

        with contextlib.redirect_stdout(io.StringIO()):
            self.patch(benching, run=interrupted)
            self.assertEqual(benching.measure(pieces, self.root), (["b", "c"], False))
            self.patch(benching, run=measured)
            self.assertEqual(benching.measure(pieces, self.root), ([], True))
        self.assertTrue((self.root / "c.json").exists())
