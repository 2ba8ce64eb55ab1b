from planted import PlantedTree

PAGE = """# Errors

    rank 9 is explained before the messages begin

## The messages

    the input has 3 elements; it must have 4, and this line is as long as lines of a page may become
    before they are continued
    the timeout must be positive

And `instead of it` that.
"""
TABLE = """# a comment
[docs/reference/errors.md]
elements; it must have 4
the timeout must be positive
"""
TEST = r"""
// the timeout must be positive
TEST(Texts, Are) {
  EXPECT_EQ(text, "the input has 3 elements; "
                  "it must have 4, and more");
  EXPECT_EQ(other, R"(the timeout must be positive)");
}
"""
EMPTY = TEST.replace('R"(the timeout must be positive)"', '""')
A_TEST, PYTHON, DOCS, PHRASES = "tests/unit/a_test.cpp", "tests/python/a_test.py", "docs/reference/errors.md", "tools/error-phrases.txt"
NOT_EXPECTED, ELEMENTS = 'no test expects "the timeout must be positive"', 'no test expects "elements; it must have 4"'
ROWS = {
    "strings side by side and raw ones are found": ({}, None),
    "a phrase that no test expects": ({A_TEST: TEST.replace('; "', ', "')}, ELEMENTS),
    "a comment is no test": ({A_TEST: EMPTY}, NOT_EXPECTED),
    "two strings of two arguments are not one": ({A_TEST: TEST.replace('; "\n', '; ",\n')}, ELEMENTS),
    "docstrings of Python do not count": ({A_TEST: EMPTY, PYTHON: '"""the timeout must be positive"""\n'}, NOT_EXPECTED),
    "strings of Python count": ({A_TEST: EMPTY, PYTHON: 'match = r"the timeout must be positive\\."\n'}, None),
    "tests of this tool and of fuzzers do not count": (
        {A_TEST: "", "tests/package/tools/a_test.cpp": TEST, "tests/fuzz/a_test.cpp": TEST}, NOT_EXPECTED),
    "a phrase that is not on its page": ({DOCS: PAGE.replace("positive", "more than 0")},
                                         '"the timeout must be positive" does not stand in docs'),
    "a message without a phrase": ({DOCS: PAGE.replace("positive\n", "positive\n    a tag is negative\n")},
                                   'docs/reference/errors.md:10: "a tag is negative" has no phrase'),
    "a page without messages": ({DOCS: PAGE.replace("## The messages", "## Texts")}, "docs/reference/errors.md shows no messages"),
    "a table without phrases": ({PHRASES: ""}, "tools/error-phrases.txt holds no phrases"),
}


class CheckErrors(PlantedTree):
    def setUp(self):
        super().setUp()
        for name, text in ((DOCS, PAGE), (PHRASES, TABLE), (A_TEST, TEST)):
            self.plant(name, text)

    def test_phrases(self):
        self.assert_rows("check_errors", ROWS)
