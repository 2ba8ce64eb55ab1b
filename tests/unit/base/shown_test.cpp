#include "base/shown.hpp"

#include <gtest/gtest.h>

#include <string>

namespace {

using namespace tutti::base;

TEST(Shown, LeavesTextAsItIs) {
  EXPECT_EQ(shown(""), "");
  EXPECT_EQ(shown("plain\ntext\t"), "plain\ntext\t");
  EXPECT_EQ(shown("größer, 日本語, 😀"), "größer, 日本語, 😀");
  EXPECT_EQ(shown(std::string("\0", 1)), std::string("\0", 1));
}

TEST(Shown, EscapesWhatIsNoUtf8) {
  EXPECT_EQ(shown("k\x80y"), "k\\x80y");
  EXPECT_EQ(shown("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(shown("\xc0\xaf"), "\\xc0\\xaf") << "longer than it needs";
  EXPECT_EQ(shown("\xe0\x80\xaf"), "\\xe0\\x80\\xaf") << "same";
  EXPECT_EQ(shown("\xf0\x80\x80\xaf"), "\\xf0\\x80\\x80\\xaf") << "same";
  EXPECT_EQ(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half of a pair of UTF-16";
  EXPECT_EQ(shown("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond Unicode";
  EXPECT_EQ(shown("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80") << "same";
  EXPECT_EQ(shown("a\xc3"), "a\\xc3") << "ends within a character";
  EXPECT_EQ(shown("\xe6\x97x"), "\\xe6\\x97x");
}

TEST(Shown, TakesEveryCharacterAndNothingElse) {
  // All code points, encoded here by the definition.
  for (unsigned point = 0x80; point < 0x120000; ++point) {
    std::string text;
    if (point >= 0x10000) {
      text += static_cast<char>(0xf0 | point >> 18);
      text += static_cast<char>(0x80 | (point >> 12 & 0x3f));
    } else if (point >= 0x800) {
      text += static_cast<char>(0xe0 | point >> 12);
    }
    if (point >= 0x800)
      text += static_cast<char>(0x80 | (point >> 6 & 0x3f));
    else
      text += static_cast<char>(0xc0 | point >> 6);
    text += static_cast<char>(0x80 | (point & 0x3f));
    const bool character = point < 0x110000 && (point < 0xd800 || point > 0xdfff);
    ASSERT_EQ(shown(text) == text, character) << point;
  }
}

TEST(Shown, IsCutBetweenCharacters) {
  EXPECT_EQ(cut("abc", 3), "abc");
  EXPECT_EQ(cut("abcd", 3), "abc");
  EXPECT_EQ(cut("abcd", 0), "");
  const std::string text = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80z";  // 1, 2, 3, 4 and 1 bytes
  const std::size_t ends[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
  for (std::size_t most = 0; most < std::size(ends); ++most) {
    EXPECT_EQ(cut(text, most), text.substr(0, ends[most])) << most;
    EXPECT_EQ(shown(text, most), text.substr(0, ends[most])) << most;
  }
}

TEST(Shown, IsCutAnywhereWhereThereAreNoCharacters) {
  EXPECT_EQ(cut(std::string(100, '\x80'), 50).size(), 50U);
  EXPECT_EQ(cut(std::string(100, '\xff'), 50).size(), 50U);
  EXPECT_EQ(shown(std::string(100, '\x80'), 50).size(), 200U);
  EXPECT_EQ(cut("\xe6\x97xyz", 1), "\xe6") << "that is no character";
}

TEST(ShownOnLine, NothingSpeaksToTheTerminal) {
  EXPECT_EQ(shown_on_line("größer, 日本語, 😀"), "größer, 日本語, 😀");
  EXPECT_EQ(shown_on_line("a\x1b[2J\r\n\tb\x7f"), "a\\x1b[2J\\x0d\\x0a\\x09b\\x7f");
  EXPECT_EQ(shown_on_line(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(shown_on_line("\xc2\x9bK \xc2\xa0"), "\\xc2\\x9bK \xc2\xa0") << "CSI in one character";
  EXPECT_EQ(shown_on_line("\x9bK"), "\\x9bK");
  EXPECT_EQ(shown_on_line("\x1b\x1b", 1), "\\x1b");
}

TEST(ShownWords, NoWordIsTorn) {
  EXPECT_EQ(shown_words("one two", 7), "one two");
  EXPECT_EQ(shown_words("one two three", 8), "one two ...");
  EXPECT_EQ(shown_words("one two three", 7), "one two ...") << "it ends just there";
  EXPECT_EQ(shown_words("one  two", 6), "one ...");
  EXPECT_EQ(shown_words("one\ttwo three", 9), "one\\x09two ...");
  EXPECT_EQ(shown_words("\xe6\x97\xa5\xe6\x97\xa5", 5), "\xe6\x97\xa5...") << "one word";
  EXPECT_EQ(shown_words(" one", 3), " on...");
}

}  // namespace
