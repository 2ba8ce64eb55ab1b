import shutil
import subprocess
import sys
import unittest

from planted import ROOT, PlantedTree

SOURCE = """
// too_small: four bytes at least
// harmless: anything
// other_reason: text that the compiler never says
// in_a_crowd: read this
#ifdef TUTTI_CASE_too_small
static_assert(sizeof(char) >= 4, "four" " bytes at least");
#endif
#ifdef TUTTI_CASE_harmless
int b = 1;
#endif
#ifdef TUTTI_CASE_other_reason
int c = ;
#endif
#ifdef TUTTI_CASE_in_a_crowd
static_assert(sizeof(char) >= 4, "read" " this");
int e = "one" + "other";
#endif
"""


@unittest.skipUnless(shutil.which("c++"), "needs a compiler")
class MustNotCompile(PlantedTree):
    def check(self, *cases, source=SOURCE):
        self.plant("a.cpp", source)
        return subprocess.run(
            [sys.executable, ROOT / "tools" / "must_not_compile.py", "--source",
             self.root / "a.cpp", "--cases", *cases, "--", "c++", "-std=c++20"],
            capture_output=True, text=True, timeout=60, check=False)

    def test_refused_as_it_must_be(self):
        self.assertEqual(self.check("too_small").returncode, 0)

    def test_misuse_that_compiles(self):
        done = self.check("too_small", "harmless")
        self.assertEqual(done.returncode, 1)
        self.assertIn("harmless: compiles, and must not", done.stdout)

    def test_refused_for_another_reason(self):
        done = self.check("other_reason")
        self.assertEqual(done.returncode, 1)
        self.assertIn("refused, but not with", done.stdout)

    def test_an_assertion_among_other_errors(self):
        done = self.check("in_a_crowd")
        self.assertEqual(done.returncode, 1)
        self.assertIn("refused with other errors beside the assertion", done.stdout)

    def test_source_that_never_compiles(self):
        done = self.check("too_small", source=SOURCE + "int d = ;\n")
        self.assertEqual(done.returncode, 1)
        self.assertIn("without any misuse it must compile", done.stdout)

    def test_with_what_it_includes(self):
        source = "#include <string>\nstd::string text;\n" + SOURCE
        self.assertEqual(self.check("too_small", source=source).returncode, 0)
        self.assertEqual(self.check("harmless", source=source).returncode, 1)

    def test_an_include_that_is_missing(self):
        done = self.check("too_small", source="#include <no/such/header.hpp>\n" + SOURCE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no/such/header.hpp", done.stdout)

    def test_unknown_case(self):
        done = self.check("forgotten")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such case", done.stdout)


if __name__ == "__main__":
    unittest.main()
