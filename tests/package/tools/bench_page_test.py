"""The page of figures and its plots that ./dev bench --docs makes of a folder of a run."""

import contextlib
import io
import json
import pathlib
import xml.etree.ElementTree as xml

from planted import FolderTest

import bench_page
import bench_plots
import bench_summary
import benching
import console

PAGE = """# Performance

By hand, above.

<!-- results: written by ./dev bench --docs -->
<!-- end of results -->
By hand, between.

<!-- gaps: written by ./dev bench --docs -->
<!-- end of gaps -->
By hand, below.
"""


def document(*points, **settings):
    """Of points (operation, ranks, bytes, times by library); each library takes that many us in each of two rounds."""
    libraries = sorted({name for *_, times in points for name in times})
    made = []
    for operation, ranks, count, times in points:
        best = min((name for name in times if name != "tutti"), key=times.get)
        made.append({"operation": operation, "ranks": ranks, "bytes": count, "state": "near", "others_cpu": 0.0,
                     "best_peer": best, "ratio": times["tutti"] / times[best],
                     "libraries": {name: {"us": us, "us_per_round": [us, us], "algbw_gb_s": count / us / 1000}
                                   for name, us in times.items()}})
    return {"mode": "loop", "rounds": 5, "points": made, **settings,
            "libraries": [{"library": name, "ranks": 2, "version": f"{name} v1.2.3, more"} for name in libraries]}


def times(tutti, gloo, openmpi, impi):
    return {"tutti": tutti, "gloo": gloo, "openmpi": openmpi, "impi": impi}


HOST = document(("all_reduce", 2, 8, times(1, 100, 2, 4)), ("all_reduce", 2, 1 << 20, times(1, 25, 0.5, 1)),
                ("all_reduce", 8, 8, times(3, 300, 6, 9)), ("barrier", 2, 0, times(1, 50, 2, 3)))
HOSTS = document(("broadcast", 2, 64, {"tutti": 3, "openmpi": 2, "impi": 4}), mode="sync", hosts=2, network="veth")


def marks(picture, shape):
    """The places of the dots of a colour, without those of the legend."""
    paths = [path.get("d") for path in xml.fromstring(picture).iter("{http://www.w3.org/2000/svg}path")
             if path.get("class") == f"dots {shape}"][1:]
    return [tuple(map(float, place.partition("h")[0].partition("v")[0].split())) for path in paths for place in path.split("M")[1:]]


class Written(FolderTest):
    """What stands in the page and its pictures."""

    def setUp(self):
        super().setUp()
        self.run_folder = self.root / "run"
        self.page = self.plant(bench_page.PAGE, PAGE)
        self.plant("run/machine.txt", "A machine, 2 CPUs, 2026-01-02\n")

    def write(self, expected=(), **documents):
        for name, one in documents.items():
            self.plant(f"run/{name.replace('_', '-')}.json", json.dumps(one))
        bench_page.write(self.run_folder, self.root, expected)
        return self.page.read_text(encoding="utf-8")

    def picture(self, name):
        return (self.root / bench_page.PICTURES / f"{name}.svg").read_text(encoding="utf-8")

    def test_operations_have_a_row_with_the_ratio_to_each_peer(self):
        text = self.write(quick_host_a=HOST)
        # Means of 1/100, 1/25, 3/300; of 1/2, 2, 1/2; of 1/4, 1, 1/3. The best: 1/2, 2, 1/2.
        self.assertIn("| all_reduce | 0.02 | 0.79 | 0.44 | 0.79 | 1 of 3 | **2.00** (1 MiB, 2 ranks) |", text)
        self.assertIn("| barrier | 0.02 | 0.50 | 0.33 | 0.50 | 0 of 1 | 0.50 |", text)
        self.assertIn("| all_reduce | 1.00 | 100 | 2.00 | 4.00 | 3.00 | 300 | 6.00 | 9.00 |", text)
        self.assertIn("A machine, 2 CPUs, 2026-01-02. tutti 1.2.3, Gloo 1.2.3, Open MPI 1.2.3, Intel MPI 1.2.3.", text)

    def test_a_loss_is_bold_in_its_table_and_stands_among_the_gaps(self):
        text = self.write(quick_host_a=document(("broadcast", 4, 64, times(3, 90, 2, 6))))
        self.assertIn("| broadcast | 0.03 | **1.50** | 0.50 | **1.50** | 1 of 1 | **1.50** (64 B) |", text)
        self.assertIn("Cells above 1.05: 1 of 1.", text)
        self.assertIn("| one host, 4 ranks | broadcast 64 B 1.50 |", text)
        busy = document(("reduce", 4, 8, times(3, 90, 2, 6)))
        busy["points"][0]["others_cpu"] = 0.2
        text = self.write(quick_host_b=busy)
        self.assertIn("In 1 of them, with a star, other processes", text)
        self.assertIn(r"| one host, 4 ranks | broadcast 64 B 1.50; reduce 8 B 1.50\* |", text)

    def test_a_picture_has_a_dot_for_each_ratio_and_losses_right_of_the_line(self):
        self.write(quick_host_a=HOST, a_hosts=HOSTS)
        picture = self.picture("operations")
        self.assertIn("A machine, 2 CPUs, 2026-01-02.", picture)
        self.assertIn("cores near in 4.", picture)  # not those between hosts
        figures = bench_page.Page(bench_page.read(self.run_folder)).operations().plot
        self.assertEqual(sorted((dot.panel, dot.row, dot.value) for dot in figures.dots if dot.series == "Open MPI"),
                         [("2 ranks", "all_reduce", 0.5), ("2 ranks", "all_reduce", 2), ("2 ranks", "barrier", 0.5),
                          ("8 ranks", "all_reduce", 0.5)])
        for shape in ("c0", "c1", "c2"):
            self.assertEqual(len(marks(picture, shape)), 4, shape)
        panel = bench_plots.Panel(figures, "2 ranks", figures.rows, figures.series, bench_plots.LEFT, bench_plots.TOP, 282)
        drawn = sorted(x for x, _ in marks(picture, "c1"))
        self.assertEqual([round(x, 1) for x in drawn[:3]], [round(panel.x(0.5), 1)] * 2 + [round(panel.x(2), 1)])
        self.assertLess(panel.x(0.5), panel.x(1))
        self.assertLess(panel.x(1), panel.x(2))

    def test_small_ratios_stand_at_the_edge_of_a_picture_and_losses_do_not(self):
        plot = bench_plots.Plot("t", "a", "c", [bench_plots.Dot("p", "r", "s", value) for value in (0.001, 0.9, 300)],
                                [("s", 0)], ["r"], ["p"], ratio=True, least=1 / 64)
        self.assertEqual(bench_plots.bounds(plot), (1 / 64, 512))
        self.assertIn("&lt; 1/64", bench_plots.svg(plot))

    def test_parts_that_the_folder_does_not_have_are_named(self):
        expected = ["host-a", "host-b", "hosts-veth", "random-2-a", "hog-1-2"]
        text = self.write(expected, quick_host_a=HOST)
        self.assertIn("Not measured in this run: operations of one host: 1 of 2 pieces; operations between hosts; random sizes;"
                      " ranks beside busy processes; start of many ranks.", " ".join(text.split()))
        self.plant("run/start.txt", "seconds ...\n ranks    median       min       max\n    64     0.250     0.240     0.300\n")
        sizes = document(("send_recv", 2, 100, {"tutti": 1, "impi": 2}), ("send_recv", 4, 100, {"tutti": 4, "impi": 2}))
        hogs = document(("send_recv", 2, 8, {"tutti": 3, "impi": 2}), hogs="1,bound")
        text = self.write(expected, quick_host_b=HOST, a_hosts_veth=HOSTS, a_random_2_a=sizes, a_hog_1_2=hogs)
        self.assertNotIn("Not measured", text)
        for row in ("| 2 hosts, veth, one at a time | **1.50** | **1.50** | 1 of 1 | **1.50** (64 B) |",
                    "| 64 | 0.25 | 0.24 | 0.30 |", "| random sizes | 0.50 | **2.00** | 1.00 | 1 of 2 | **2.00** (100 B, 4 ranks) |",
                    "| 1 busy process, bound | **1.50** |  | **1.50** | 1 of 1 | **1.50** (8 B) |"):
            self.assertIn(row, text)
        for name in ("hosts", "start", "disturbed"):
            self.assertIn(f"pictures/bench/{name}.svg", text)
            self.assertNotIn("Gloo", self.picture(name))  # it has no dot there
            xml.fromstring(self.picture(name))

    def test_a_mean_tells_how_many_cells_lack_the_peer(self):
        partly = document(("broadcast", 2, 64, times(3, 90, 2, 6)), ("broadcast", 2, 512, {"tutti": 3, "openmpi": 2, "impi": 6}))
        self.assertIn("| broadcast | 0.03 (1 of 2 cells) | **1.50** | 0.50 |", self.write(quick_host_a=partly))

    def test_a_library_that_fails_is_named(self):
        failing = document(("all_reduce", 2, 8, times(1, 1, 2, 4)))
        failing["points"][0]["libraries"]["gloo"] = {"failure": "wrong sum\nmore"}
        self.assertIn("Without a figure: shared memory: all_reduce 8, 2 ranks: gloo: wrong sum.", self.write(quick_host_a=failing))
        failing["libraries"] = [{"library": "impi", "ranks": ranks, "failure": "not installed"} for ranks in range(2, 10)]
        self.assertIn("not installed; and 4 more.", " ".join(self.write(quick_host_b=failing).split()))

    def test_a_second_time_changes_nothing_and_leaves_what_is_by_hand(self):
        stale = self.plant(bench_page.PICTURES / "stale.svg", "<svg/>")
        text, picture = self.write(quick_host_a=HOST, a_hosts=HOSTS), self.picture("hosts")
        self.assertFalse(stale.exists())
        self.assertEqual((self.write(), self.picture("hosts")), (text, picture))
        for part in ("above", "between", "below"):
            self.assertEqual(text.count(f"By hand, {part}."), 1)
        self.assertLessEqual(max(len(line) for line in text.splitlines() if not line.startswith(("|", "!"))), 120)

    def test_a_page_without_its_parts_and_a_folder_without_figures_are_refused(self):
        with self.assertRaisesRegex(ValueError, "no figures in"):
            self.write()
        self.page.write_text(PAGE.replace("<!-- end of gaps -->", ""), encoding="utf-8")
        with self.assertRaisesRegex(ValueError, "has no lines between '<!-- gaps"):
            self.write(quick_host_a=HOST)

    def test_a_library_that_more_rounds_leave_out_keeps_its_figures(self):
        again = document(("all_reduce", 2, 8, {"tutti": 9, "openmpi": 6}), rounds=15)
        figures = bench_summary.Figures([HOST, again])
        (cell,) = [one for one in figures.measured if (one.ranks, one.bytes) == (2, 8)]
        self.assertEqual([figures.of_library(cell, name, "ratio") for name in ("openmpi", "gloo", "mpich")], [1.5, 0.01, None])


class Commands(FolderTest):
    """The arguments of ./dev bench."""

    def test_grids_are_told_from_arguments_of_tutti_bench(self):
        folder = str(self.root)
        for words, full, docs, measures in (([], False, False, True), (["--docs"], False, True, True), (["--full"], True, False, True),
                                            (["--full", folder, "--docs"], True, True, True), (["--docs", folder], False, True, False)):
            grid = benching.grid_of(words)
            self.assertEqual((grid.full, grid.docs, grid.measures), (full, docs, measures), words)
            self.assertEqual(grid.folder, pathlib.Path(folder) if folder in words else None)
        self.assertIsNone(benching.grid_of(["all_reduce", "--ranks", "2"]))
        for words, text in ((["--docs", "no/where"], "no such folder"), (["--full", "a", "b"], "take one folder"),
                            (["--docs", "--rounds"], "no other options")):
            with self.assertRaisesRegex(console.Failed, text):
                benching.grid_of(words)

    def test_a_folder_that_does_not_name_its_machine_gets_this_one(self):
        self.plant(bench_page.PAGE, PAGE)
        self.plant("run/quick-host-a.json", json.dumps(HOST))
        self.patch(benching, ROOT=self.root)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            self.assertTrue(benching.measure_grid(benching.grid_of(["--docs", str(self.root / "run")])))
        machine = (self.root / "run" / "machine.txt").read_text(encoding="utf-8").strip()
        self.assertRegex(machine, r" CPUs, Linux .*, \d{4}-\d\d-\d\d$")
        self.assertIn("does not say where it was measured", said.getvalue())
        self.assertIn(machine, " ".join((self.root / bench_page.PAGE).read_text(encoding="utf-8").split()))
