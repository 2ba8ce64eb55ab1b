from planted import PlantedTree

ACQUIRES = "auto a = x.load(std::memory_order_acquire);\n"
ROWS = {
    "a clean tree": ({"src/base/a.hpp": "#pragma once\n// no printf() here\nint exit_code();\n",
                      "docs/a.md": "see src/home/ and https://example.org/home/x\n",
                      "tests/unit/a_test.cpp": 'int main() { printf("ok"); }\n'}, None),
    "a file as long as it may be": ({"src/base/a.cpp": "\n" * 500}, None),
    "a long file": ({"src/base/a.cpp": "\n" * 501}, "src/base/a.cpp: 501 lines, at most 500"),
    "long stubs": ({"python/a.pyi": "\n" * 501}, "python/a.pyi: 501 lines, at most 500"),
    "a path of one machine": ({"docs/a.md": "in /ro" + "ot/build\n"}, "docs/a.md:1: a path of one machine"),
    "an open end": ({"src/base/a.cpp": "// TO" + "DO later\n"}, "an open end"),
    "others without a name": ({"docs/a.md": "send and its" + " kin\n"}, "docs/a.md:1: a riddle"),
    "a header without pragma once": ({"src/base/a.hpp": "int a();\n"}, "no #pragma once"),
    "using namespace in a header": ({"src/base/a.hpp": "#pragma once\nusing namespace std;\n"}, "using namespace in a header"),
    "a library that prints": ({"src/base/a.cpp": 'void f() { std::fprintf(stderr, "x"); }\n'}, "does not print"),
    "a library that ends the process": ({"src/base/a.cpp": "void f() { std::abort(); }\n"}, "does not end the process"),
    "a forked child that ends with a word": ({"src/os/a.cpp": "_exit(127);  // the child ends here\n"}, None),
    "a forked child that ends without": ({"src/os/a.cpp": "_exit(127);\n"}, "does not end the process"),
    "a library that sleeps": ({"src/base/a.cpp": "void f() { std::this_thread::sleep_for(1ms); }\n"}, "does not sleep"),
    "a weak order with its reason": ({"src/base/a.cpp": "// pairs with g\n" + ACQUIRES}, None),
    "a weak order without": ({"src/base/a.cpp": "\n" + ACQUIRES}, "weak memory order"),
    "ignored files are not looked at": ({".gitignore": "/build/\n", "build/a.hpp": "using namespace std;\n"}, None),
}


class Lint(PlantedTree):
    def setUp(self):
        super().setUp()
        self.git("init", "-q")

    def test_rules(self):
        self.assert_rows("lint", ROWS)
