import subprocess
import unittest

from planted import PlantedTree


class Lint(PlantedTree):
    def setUp(self):
        super().setUp()
        subprocess.run(["git", "init", "-q", self.root], check=True)

    def test_clean_tree(self):
        self.plant("src/base/a.hpp", "#pragma once\n// no printf() here\nint exit_code();\n")
        self.plant("docs/a.md", "see src/home/ and https://example.org/home/x\n")
        self.plant("tests/unit/a_test.cpp", 'int main() { printf("ok"); }\n')
        self.assert_clean("lint")

    def test_long_file(self):
        self.plant("src/base/a.cpp", "\n" * 500)
        self.assert_clean("lint")
        self.plant("src/base/a.cpp", "\n" * 501)
        self.assert_fault("lint", "src/base/a.cpp: 501 lines, at most 500")

    def test_long_stubs(self):
        self.plant("python/a.pyi", "\n" * 501)
        self.assert_fault("lint", "python/a.pyi: 501 lines, at most 500")

    def test_path_of_one_machine(self):
        self.plant("docs/a.md", "in /ro" + "ot/build\n")
        self.assert_fault("lint", "docs/a.md:1: a path of one machine")

    def test_open_end(self):
        self.plant("src/base/a.cpp", "// TO" + "DO later\n")
        self.assert_fault("lint", "an open end")

    def test_others_without_a_name(self):
        self.plant("docs/a.md", "send and its" + " kin\n")
        self.assert_fault("lint", "docs/a.md:1: a riddle")

    def test_header_without_pragma_once(self):
        self.plant("src/base/a.hpp", "int a();\n")
        self.assert_fault("lint", "no #pragma once")

    def test_using_namespace_in_header(self):
        self.plant("src/base/a.hpp", "#pragma once\nusing namespace std;\n")
        self.assert_fault("lint", "using namespace in a header")

    def test_library_that_prints(self):
        self.plant("src/base/a.cpp", 'void f() { std::fprintf(stderr, "x"); }\n')
        self.assert_fault("lint", "does not print")

    def test_library_that_ends_the_process(self):
        self.plant("src/base/a.cpp", "void f() { std::abort(); }\n")
        self.assert_fault("lint", "does not end the process")

    def test_forked_child_ends_with_a_word(self):
        self.plant("src/os/a.cpp", "_exit(127);  // the child ends here\n")
        self.assert_clean("lint")
        self.plant("src/os/a.cpp", "_exit(127);\n")
        self.assert_fault("lint", "does not end the process")

    def test_library_that_sleeps(self):
        self.plant("src/base/a.cpp", "void f() { std::this_thread::sleep_for(1ms); }\n")
        self.assert_fault("lint", "does not sleep")

    def test_weak_order_needs_its_reason(self):
        self.plant("src/base/a.cpp", "// pairs with g\nauto a = x.load(std::memory_order_acquire);\n")
        self.assert_clean("lint")
        self.plant("src/base/a.cpp", "\nauto a = x.load(std::memory_order_acquire);\n")
        self.assert_fault("lint", "weak memory order")

    def test_ignored_files_are_not_looked_at(self):
        self.plant(".gitignore", "/build/\n")
        self.plant("build/a.hpp", "using namespace std;\n")
        self.assert_clean("lint")


if __name__ == "__main__":
    unittest.main()
