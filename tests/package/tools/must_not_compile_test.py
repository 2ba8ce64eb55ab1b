import shutil
import sys
import unittest

from planted import ROOT, PlantedTree, run

SOURCE = """
// too_small: four bytes at least
// harmless: anything
// other_reason: text that the compiler never says
// in_a_crowd: tutti: read this
// too_late: tutti: read this
#if defined(TUTTI_CASE_too_small)
static_assert(sizeof(char) >= 4, "four" " bytes at least");
#elif defined(TUTTI_CASE_harmless)
int b = 1;
#elif defined(TUTTI_CASE_other_reason)
int c = ;
#elif defined(TUTTI_CASE_in_a_crowd)
static_assert(sizeof(char) >= 4, "tutti: read" " this");
int e = "one" + "other";
#elif defined(TUTTI_CASE_too_late)
int e = "one" + "other";
static_assert(sizeof(char) >= 4, "tutti: read" " this");
#endif
"""
INCLUDES = "#include <string>\nstd::string text;\n" + SOURCE
# By name: the cases, the exit code, what is told, and the source.
ROWS = {
    "refused as it must be": (["too_small"], 0, "", SOURCE),
    "a misuse that compiles": (["too_small", "harmless"], 1, "harmless: compiles, and must not", SOURCE),
    "refused for another reason": (["other_reason"], 1, "refused, but not with", SOURCE),
    "an advice among other errors": (["in_a_crowd"], 1, "refused with other errors beside this one", SOURCE),
    "an advice behind the first error": (["too_late"], 1, "the first line of the error does not hold", SOURCE),
    "a source that never compiles": (["too_small"], 1, "without any misuse it must compile", SOURCE + "int d = ;\n"),
    "with what it includes": (["too_small"], 0, "", INCLUDES),
    "harmless with what it includes": (["harmless"], 1, "", INCLUDES),
    "an include that is missing": (["too_small"], 1, "no/such/header.hpp", "#include <no/such/header.hpp>\n" + SOURCE),
    "an unknown case": (["forgotten"], 1, "no such case", SOURCE),
}


@unittest.skipUnless(shutil.which("c++"), "needs a compiler")
class MustNotCompile(PlantedTree):
    def test_cases(self):
        for name, (cases, code, told, source) in ROWS.items():
            with self.subTest(name):
                self.plant("a.cpp", source)
                done = run(sys.executable, ROOT / "tools" / "must_not_compile.py", "--source", self.root / "a.cpp",
                           "--cases", *cases, "--", "c++", "-std=c++20")
                self.assertEqual(done.returncode, code)
                self.assertIn(told, done.stdout)
