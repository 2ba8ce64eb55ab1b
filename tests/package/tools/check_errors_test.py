import unittest

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
[docs/errors.md]
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


class CheckErrors(PlantedTree):
    def setUp(self):
        super().setUp()
        self.plant("docs/errors.md", PAGE)
        self.plant("tools/error-phrases.txt", TABLE)
        self.plant("tests/unit/a_test.cpp", TEST)

    def test_phrases_in_strings_side_by_side_and_raw_ones_are_found(self):
        self.assert_clean("check_errors")

    def test_phrase_that_no_test_expects_is_a_fault(self):
        self.plant("tests/unit/a_test.cpp", TEST.replace("; \"", ", \""))
        self.assert_fault("check_errors", 'no test expects "elements; it must have 4"')

    def test_comment_is_no_test(self):
        self.plant("tests/unit/a_test.cpp", TEST.replace('R"(the timeout must be positive)"', '""'))
        self.assert_fault("check_errors", 'no test expects "the timeout must be positive"')

    def test_two_strings_of_two_arguments_are_not_one(self):
        self.plant("tests/unit/a_test.cpp", TEST.replace('; "\n', '; ",\n'))
        self.assert_fault("check_errors", 'no test expects "elements; it must have 4"')

    def test_strings_of_python_count_but_docstrings_do_not(self):
        self.plant("tests/unit/a_test.cpp", TEST.replace('R"(the timeout must be positive)"', '""'))
        self.plant("tests/python/a_test.py", '"""the timeout must be positive"""\n')
        self.assert_fault("check_errors", 'no test expects "the timeout must be positive"')
        self.plant("tests/python/a_test.py", 'match = r"the timeout must be positive\\."\n')
        self.assert_clean("check_errors")

    def test_tests_of_this_tool_and_of_fuzzers_do_not_count(self):
        self.plant("tests/unit/a_test.cpp", "")
        self.plant("tests/package/tools/a_test.cpp", TEST)
        self.plant("tests/fuzz/a_test.cpp", TEST)
        self.assert_fault("check_errors", 'no test expects "the timeout must be positive"')

    def test_phrase_that_is_not_on_its_page_is_a_fault(self):
        self.plant("docs/errors.md", PAGE.replace("positive", "more than 0"))
        self.assert_fault("check_errors", '"the timeout must be positive" does not stand in docs')

    def test_message_without_a_phrase_is_a_fault(self):
        self.plant("docs/errors.md", PAGE.replace("positive\n", "positive\n    a tag is negative\n"))
        self.assert_fault("check_errors", 'docs/errors.md:10: "a tag is negative" has no phrase')

    def test_page_without_messages_and_table_without_phrases_are_faults(self):
        self.plant("docs/errors.md", PAGE.replace("## The messages", "## Texts"))
        self.assert_fault("check_errors", "docs/errors.md shows no messages")
        self.plant("tools/error-phrases.txt", "")
        self.assert_fault("check_errors", "tools/error-phrases.txt holds no phrases")


if __name__ == "__main__":
    unittest.main()
