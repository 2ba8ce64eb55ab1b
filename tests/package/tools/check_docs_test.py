from unittest import mock

from planted import ROOT, PlantedTree

import faces
import kinds
import made

DOCUMENTED = """#pragma once

namespace tutti {

class Later;

/// A thing.
class Thing {
 public:
  Thing() = default;
  int size() const noexcept { return size_; }
  /// Grows, or shrinks.
  void grow(int by);
  void shrink(int by,
              int to);

 private:
  void hidden();
  int size_ = 0;
};

/// Any of them.
template <class T>
[[nodiscard]] bool check(const T& value) {
  if (value.size() > 0) {
    return helper(value);
  }
  return false;
}

namespace detail {
void inside();
}  // namespace detail

}  // namespace tutti
"""


class CheckDocs(PlantedTree):
    def plant_header(self, old="", new=""):
        self.assertIn(old, DOCUMENTED)
        self.plant("include/tutti/thing.hpp", DOCUMENTED.replace(old, new) if old else DOCUMENTED)

    def test_headers(self):
        self.plant_header()
        self.assert_clean("check_docs")
        for taken, put, fault in (("/// A thing.\n", "", "thing.hpp:7: Thing has no"),
                                  ("  /// Grows, or shrinks.\n", "\n", "grow has no"),
                                  ("/// Any of them.\n", "", "check has no"),
                                  # A comment ends at the empty line.
                                  ("  void shrink(int by,\n", "\n  void shrink(int by,\n", "shrink has no")):
            self.plant_header(taken, put)
            self.assert_fault("check_docs", fault)

    def plant_python(self, text):
        self.plant("bindings/python/tutti/thing.py", text)

    def test_python_without_docstrings(self):
        clean = ('"A module."\n\n\nclass Thing:\n    "A thing."\n\n    @property\n    def size(self):\n        "How large."\n\n'
                 '    @size.setter\n    def size(self, value):\n        pass\n\n    def grow(self):\n        "Grow."\n\n\n'
                 'class Large(Thing):\n    "A large one."\n\n    def grow(self):\n        pass\n\n    def _inside(self):\n'
                 '        pass\n\n\ndef pytest_configure(config):\n    pass\n')
        self.plant_python(clean)
        self.assert_clean("check_docs")
        for taken, fault in (('"A module."\n', "thing.py: the module has no docstring"),
                             ('    "A thing."\n', "thing.py:4: Thing has no docstring"),
                             ('        "How large."\n', "Thing.size has no docstring"),
                             ('        "Grow."\n', "Large.grow has no docstring"),
                             ('    "A large one."\n', "Large has no docstring")):
            self.assertIn(taken, clean)
            self.plant_python(clean.replace(taken, taken.replace(taken.strip(), "1") if "class" not in taken else ""))
            self.assert_fault("check_docs", fault)
        self.plant_python(clean)
        self.plant("bindings/python/tutti/_thing.pyi", '"A module."\n\ndef grow() -> None: ...\n')
        self.assert_fault("check_docs", "_thing.pyi:3: grow has no docstring")
        first, more = "@overload\ndef grow(by: int) -> int:{}\n", "@overload\ndef grow(by: str) -> str: ...\n"
        self.plant("bindings/python/tutti/_thing.pyi", '"A module."\n' + first.format(' "Grow."') + more)
        self.assert_clean("check_docs")
        self.plant("bindings/python/tutti/_thing.pyi", '"A module."\n' + first.format(" ...") + more)
        self.assert_fault("check_docs", "_thing.pyi:3: grow has no docstring")

    def plant_config(self, field="int speed = 1;", read='"TUTTI_SPEED"', row="`speed`"):
        self.plant("include/tutti/config.hpp",
                   "#pragma once\n\n/// Settings.\nstruct Config {\n  /// TUTTI_SPEED, in knots.\n"
                   f"  {field}\n}};\n")
        self.plant("src/base/config.cpp", f"get({read});\n")
        self.plant("docs/reference/configuration.md", f"| `TUTTI_SPEED` | {row} | 1 to 9 |\n")

    def test_setting_is_a_field_with_a_row(self):
        for field in ("int speed = 1;", "std::string speed;", "std::optional<int> speed;",
                      "std::chrono::nanoseconds speed = std::chrono::minutes(30);"):
            self.plant_config(field)
            self.assert_clean("check_docs")

    def test_settings_and_variables(self):
        config, docs = "src/base/config.cpp", "docs/reference/configuration.md"
        for row in ("how fast", "`haste`"):
            self.plant_config(row=row)
            self.assert_fault("check_docs", "TUTTI_SPEED has no row that names its field of Config")
        self.plant_config("int speed = 1;\n  bool quiet = false;")
        self.assert_fault("check_docs", "no variable for Config's field quiet")
        self.plant_config()
        self.plant(docs, "| `TUTTI_SPEED` | `speed` |\n| `TUTTI_OLD` | x |\n")
        self.assert_fault("check_docs", "nothing reads TUTTI_OLD")
        self.plant(config, 'get("TUTTI_SPEED"); get("TUTTI_PACE");\n')
        self.plant(docs, "| `TUTTI_SPEED` | `speed` |\n| `TUTTI_PACE` | `speed` |\n")
        self.assert_fault("check_docs", "config.hpp: no field says that TUTTI_PACE gives it")
        self.plant_config()
        self.plant("src/engine/engine.cpp", 'std::getenv("TUTTI_SPEED");\n')
        self.assert_fault("check_docs", "engine.cpp: reads TUTTI_SPEED; settings are fields")

    def test_what_a_page_must_list(self):
        speed, launchers, page = 'auto value = text("TUTTI_SPEED");\n', '{"PMI_RANK", "SLURM_PROCID"}\n', "docs/reference/configuration.md"
        links = "[b](b.md#part) [out](https://example.org/x)\n"
        row = "| `TUTTI_SPEED` | how fast |\n"
        self.assert_rows("check_docs", {
            "a variable": ({"src/base/a.cpp": speed}, "TUTTI_SPEED does not stand in docs/reference/configuration.md"),
            "a variable that stands there": ({"src/base/a.cpp": speed, page: row}, None),
            "a variable of another launcher": ({"src/rendezvous/a.cpp": launchers, page: "`PMI_RANK`\n"},
                                               "a.cpp: SLURM_PROCID does not stand in docs/reference/configuration.md"),
            "one that stands there": ({"src/rendezvous/a.cpp": launchers, page: "`PMI_RANK` `SLURM_PROCID`\n"}, None),
            "a dead link": ({"docs/a.md": links}, "docs/a.md: link to b.md leads nowhere"),
            "a link": ({"docs/a.md": links, "docs/b.md": "\n"}, None)})

    def plant_promises(self, kept="true", mpi="speed", test="unit/speed_test.cpp IsHigh", page="yes: always",
                       lacks="", on_nccl="yes"):
        self.plant("include/tutti/promises.hpp",
                   "/// Promises.\nenum class Promise {\n  /// It is\n  /// fast.\n  speed,\n};\n")
        self.plant_kinds()
        for backend, name in (("native", "speed"), ("mpi", mpi), ("nccl", "speed")):
            takes = "DeviceType::cuda" if backend == "nccl" else "DeviceType::cpu"
            self.plant(f"src/backend/{backend}/promises.hpp",
                       f'kTakes[] = {{{takes}}};\n' + f"kLacks[] = {{{lacks}}};\n" * (backend == "nccl") +
                       f'rows[] = {{{{Promise::{name}, {kept}, "al" "ways",\n "{test}"}}}};\n')
        self.plant("tests/unit/speed_test.cpp", "TEST(Speed, IsHigh)\n")
        self.plant("docs/reference/backends.md", "<!-- The table of operations: tools/made.py --write -->\n\n"
                   "| operation | native, CPU | native, GPU | mpi, CPU | mpi, GPU | nccl, CPU | nccl, GPU |\n"
                   "|---|---|---|---|---|---|---|\n| `barrier` | yes | yes | yes | yes | yes | yes |\n"
                   f"| `scatter` | yes | - | yes | - | - | {on_nccl} |\n\n<!-- The end of the table. -->\n"
                   "<!-- The table: tools/made.py --write -->\n\n| promise | on mpi | on nccl | test |\n"
                   f"|---|---|---|---|\n| It is fast | {page} | {page} | `IsHigh` |\n\n<!-- The end of the table. -->\n")

    def plant_kinds(self, number=1, row='{"scatter", Layout::scatter, false, true, On::root}',
                    page="kind, root, dtype, number of elements of a block", output="its block"):
        self.plant("include/tutti/backend/kinds.hpp",
                   f"/// All.\nenum class Kind {{\n  barrier = 0,\n  scatter = {number},  ///< out\n}};\n"
                   f"/// Rows.\ninline constexpr KindTraits kKindTraits[] = {{\n    {{\"barrier\"}},\n    {row},\n}};\n")
        self.plant("docs/design/fingerprint.md", "<!-- The table: tools/made.py --write -->\n\n"
                   "| operation | number | agreed by all | pairwise | free on each rank |\n|---|---|---|---|---|\n"
                   "| `barrier` | 0 | kind | - | timeout, sync or async |\n"
                   f"| `scatter` | 1 | {page} | - | shape, strides, address, timeout, sync or async, a tensor or "
                   "a list |\n\n<!-- The end of the table. -->\n")
        self.plant("docs/reference/semantics.md", "## barrier, scatter\n\n<!-- The table: tools/made.py --write -->\n\n"
                   "| operation | input of a rank | output of a rank | reduce op | root | blocks of different sizes |\n"
                   "|---|---|---|---|---|---|\n| `barrier` | - | - | - | - | - |\n"
                   f"| `scatter` | all blocks (the root) | {output} | - | yes | - |\n\n<!-- The end of the table. -->\n")

    def test_the_table_of_kinds_is_that_of_the_code(self):
        self.assert_planted(
            self.plant_kinds, ({}, None),
            ({"row": '{"scatter", Layout::scatter, true, true, On::root}'},
             "docs/design/fingerprint.md: its table is not that of include/tutti/backend/kinds.hpp"),
            ({"page": "kind"}, "docs/design/fingerprint.md: its table"),
            ({"output": "all blocks"}, "docs/reference/semantics.md: its table is not that of include/tutti/backend/kinds.hpp"))
        self.plant_kinds()
        self.plant("src/plan/select.cpp", 'algorithm(Kind::scatter, "deal", deal_scatter),')
        choices = "| where | barrier, scatter |\n"
        self.plant("docs/design/algorithms.md", choices + "scatter `deal`: as cards.\n")
        self.assert_fault("check_docs", "src/plan/select.cpp: barrier is missing; this place has each kind")
        self.plant("src/plan/select.cpp", 'algorithm(Kind::scatter, "deal", deal_scatter), {Kind::barrier, 1},')
        self.assert_clean("check_docs")
        self.plant("docs/design/algorithms.md", choices + "scatter deals.\n")
        self.assert_fault("check_docs", "docs/design/algorithms.md: scatter's algorithm deal does not stand there")
        self.plant("docs/design/algorithms.md", "| where | barrier |\nscatter `deal`\n")
        self.assert_fault("check_docs", "docs/design/algorithms.md: scatter is missing")
        self.plant_kinds(number=2)
        self.assert_fault("check_docs", "kinds: the rows of include/tutti/backend/kinds.hpp are not those of Kind")

    def plant_peers(self, halo="  // on all sides\n\n  go();\n  wait();\n", page="2", name="halo"):
        for peer in ("tutti", "mpi", "c10d"):
            self.plant(f"examples/peers/{peer}.cpp", "#include <x>\n  // ---- start and end\n  begin();\n"
                       f"  // ---- {name if peer == 'mpi' else 'halo'}\n{halo}  // ---- end\nint main() {{}}\n")
        self.plant("docs/how-to/from-mpi.md", "<!-- The table: tools/made.py --write -->\n\n| program | tutti | MPI | c10d |\n"
                   f"|---|---|---|---|\n| start and end | 1 | 1 | 1 |\n| halo | 2 | 2 | {page} |\n| all | 3 | 3 | 3 |\n\n"
                   "<!-- The end of the table. -->\n")

    def test_the_lines_of_peers_are_those_of_their_programs(self):
        stale = "docs/how-to/from-mpi.md: its table has not the lines of examples/peers"
        self.assert_planted(
            self.plant_peers, ({}, None), ({"page": "1"}, stale), ({"halo": "  go();\n"}, stale),
            ({"name": "borders"}, "examples/peers/mpi.cpp: its programs are not those of tutti.cpp, in their order"))

    def test_the_places_of_kinds_are_there(self):
        for place in kinds.PLACES:
            self.assertTrue((ROOT / place).exists(), place)

    def test_the_faces_are_those_of_the_headers(self):
        self.assertEqual(list(made.faults(ROOT)), [])
        why = f"its collectives are not those of {faces.METHODS}; run: tools/made.py --write"
        with mock.patch.dict(faces.BUFFERS, {"same": ["data"]}):
            self.assertEqual(list(made.faults(ROOT)), [f"include/tutti/c.h: {why}", f"bindings/c/collectives.cpp: {why}"])
        with mock.patch.dict(faces.DEFAULTS, {"int": "1"}):
            self.assertEqual(list(made.faults(ROOT)), [f"bindings/python/src/collectives.cpp: {why}"])

    def assert_planted(self, plant, *rows):
        """What is planted otherwise, and the fault that is told."""
        for changes, fault in rows:
            plant(**changes)
            self.assert_told("check_docs", fault)

    def test_promises_are_those_of_the_code(self):
        table = "docs/reference/backends.md: its table is not what the backend declares"
        self.assert_planted(
            self.plant_promises, ({}, None), ({"kept": "false"}, table), ({"lacks": "Kind::scatter"}, table),
            ({"lacks": "Kind::scatter", "on_nccl": "-"}, None),
            ({"mpi": "haste"}, "src/backend/mpi/promises.hpp: its rows are not those of Promise"),
            ({"test": "unit/speed_test.cpp IsLow"}, "names a test that is not there: unit/speed_test.cpp IsLow"))

    def test_glossary(self):
        rows = ["| `arena` | Shared memory. | `os/memory.hpp` |", "| ring | A queue of frames. | `apps/tuttirun/main.cpp` |"]
        many = [f"| term {i:02} | Some meaning. | `apps/tuttirun/main.cpp` |" for i in range(41)]
        self.plant("src/os/memory.hpp", "")
        self.plant("apps/tuttirun/main.cpp", "")
        for lines, fault in ((rows, None), (rows[::-1], "arena stands behind ring"), (many, "41 terms, at most 40"),
                             ([rows[0].replace("memory.hpp", "gone.hpp")], "arena` lives in os/gone.hpp, which is not there")):
            self.plant("docs/reference/glossary.md", "| term | meaning | where |\n|---|---|---|\n" + "\n".join(lines) + "\n")
            self.assert_told("check_docs", fault)

    def plant_versions(self, project="0.2.0", citation="0.2.0", newest="0.2.0", asked="0.2"):
        self.plant("bindings/torch/CMakeLists.txt", f"find_package(tutti {asked} CONFIG REQUIRED)\n")
        self.plant("CMakeLists.txt", f"project(\n  tutti\n  VERSION {project}\n")
        self.plant("CITATION.cff", f"cff-version: 1.2.0\nversion: {citation}\n")
        self.plant("CHANGELOG.md", f"# Changelog\n\n## {newest}\n\n## 0.1.0\n")

    def test_versions(self):
        self.assert_planted(
            self.plant_versions, ({}, None), ({"citation": "0.1.0"}, "CITATION.cff: its version is 0.1.0, that of CMakeLists.txt is 0.2.0"),
            ({"newest": "0.3.0"}, "CHANGELOG.md: its version is 0.3.0"), ({"asked": "0.1"}, "bindings/torch/CMakeLists.txt: asks for tutti 0.1, the version is 0.2.0"),
            ({"newest": "Unreleased"}, "CHANGELOG.md: its version is 0.1.0"))

    def plant_rendezvous(self, listed='"TUTTI_JOB", "TUTTI_STORE_PORT"', read='text("TUTTI_JOB"); text("TUTTI_STORE_PORT");'):
        self.plant_config()
        self.plant("src/rendezvous/environment.hpp", f"constexpr std::array kRendezvousVariables = {{{listed}}};\n")
        self.plant("src/rendezvous/meet.cpp", read + "\n")
        self.plant("docs/reference/configuration.md", "| `TUTTI_SPEED` | `speed` |\n`TUTTI_JOB` `TUTTI_STORE_PORT`\n")

    def test_rendezvous_reads_what_is_listed(self):
        self.assert_planted(
            self.plant_rendezvous, ({}, None),
            ({"read": 'text("TUTTI_JOB"); text("TUTTI_STORE_PORT"); text("TUTTI_SPEED");'}, None),  # a setting
            ({"listed": '"TUTTI_JOB"'}, "meet.cpp: TUTTI_STORE_PORT does not stand in kRendezvousVariables"),
            ({"read": 'text("TUTTI_JOB");'}, "nothing in src/rendezvous reads TUTTI_STORE_PORT"))

    def plant_agreed(self, errors="(TUTTI_A or TUTTI_B): TUTTI_A or TUTTI_B", fingerprint="TUTTI_A TUTTI_B",
                     last="yes, checked"):
        self.plant("src/base/agreed_settings.hpp", 'constexpr std::string_view kAgreedSettings = "TUTTI_A or TUTTI_B";\n')
        self.plant("src/base/a.cpp", '"TUTTI_A" "TUTTI_B"\n')
        self.plant("docs/reference/errors.md", errors + "\n")
        self.plant("docs/design/fingerprint.md", fingerprint + "\n")
        self.plant("docs/reference/configuration.md", f"| `TUTTI_A` | `a` | yes, checked |\n| `TUTTI_B` | `b` | {last} |\n")

    def test_settings_that_must_be_equal_are_named_alike(self):
        self.assert_planted(
            self.plant_agreed, ({}, None), ({"last": "no"}, "checked to be equal are TUTTI_A, but"),
            ({"errors": "TUTTI_A, TUTTI_B"}, 'docs/reference/errors.md: no message says "TUTTI_A or TUTTI_B"'),
            ({"fingerprint": "TUTTI_A"}, "docs/design/fingerprint.md: does not name TUTTI_B"))
