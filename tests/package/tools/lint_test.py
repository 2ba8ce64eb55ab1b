from planted import PlantedTree

ACQUIRES = "auto a = x.load(std::memory_order_acquire);\n"
SHORT = {f"src/base/short{number}.cpp": "\n" for number in range(3)}
REASON = '[lengths]\nmost = 1\n[lengths.files]\n"src/base/a.cpp" = "a table"\n'
ROWS = {
    "a clean tree": ({"src/base/a.hpp": "#pragma once\n// no printf() here\nint exit_code();\n",
                      "docs/a.md": "see src/home/ and https://example.org/home/x\n",
                      "tests/unit/a_test.cpp": 'int main() { printf("ok"); }\n'}, None),
    "a file as long as it may be": ({"src/base/a.cpp": "\n" * 400, **SHORT}, None),
    "a long file": ({"src/base/a.cpp": "\n" * 401, **SHORT}, "src/base/a.cpp: 401 lines: has its class one responsibility?"),
    "a long file with a reason": ({"src/base/a.cpp": "\n" * 401, "tools/layers.toml": REASON, **SHORT}, None),
    "a reason without its file": ({"tools/layers.toml": REASON}, "src/base/a.cpp is not above 400 lines"),
    "too many long files": ({"src/base/a.cpp": "\n" * 401, "tools/layers.toml": REASON.replace("1", "0"), **SHORT},
                            "1 files above 400 lines, at most 0"),
    "files that are long on the whole": ({f"src/base/{name}.cpp": "\n" * lines for name, lines in (("a", 90), ("b", 91), ("c", 91))},
                                         "half of the sources have more than 90 lines"),
    "a page with a long line": ({"docs/a.md": f"a word, {'and ' * 30}another\n"}, "docs/a.md:1: 135 columns, at most 120"),
    "a page with long tables, code and links": ({"docs/a.md": f"| {'a ' * 80} |\n\n```\n{'a ' * 80}\n```\n[{'a' * 80}]({'b' * 80})\n"}, None),
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
        self.plant("tools/layers.toml", "[lengths]\nmost = 0\n[lengths.files]\n")
        self.git("init", "-q")

    def test_rules(self):
        self.assert_rows("lint", ROWS)
