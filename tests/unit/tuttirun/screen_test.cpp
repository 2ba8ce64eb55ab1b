#include "screen.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace std::chrono_literals;
using testing::ElementsAre;
using tutti::launcher::Screen;

namespace {

/// What a terminal shows of the bytes that it gets: text, line ends, cursor up, and erasing.
class Terminal {
 public:
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      std::size_t used = 1;
      if (bytes.starts_with("\x1b[A")) {
        used = 3;
        --row_;
      } else if (bytes.starts_with("\x1b[J")) {
        used = 3;
        lines.resize(row_ + 1);
        lines[row_].resize(column_);
      } else if (bytes.front() == '\r') {
        column_ = 0;
      } else if (bytes.front() == '\n') {
        ++row_;
        column_ = 0;
        if (row_ == lines.size()) lines.emplace_back();
      } else {
        lines[row_].resize(std::max(lines[row_].size(), column_ + 1), ' ');
        lines[row_][column_++] = bytes.front();
      }
      bytes.remove_prefix(used);
    }
  }

  std::vector<std::string> lines{""};

 private:
  std::size_t row_ = 0;
  std::size_t column_ = 0;
};

class ScreenTest : public testing::Test {
 protected:
  Screen screen;
  Terminal terminal;
  Screen::Clock::time_point now = Screen::Clock::now();
};

TEST_F(ScreenTest, UnfinishedLinesMoveBelowTheOthers) {
  terminal.write(screen.print("start\n"));
  screen.set(0, "bar 0: 10%", now);
  screen.set(1, "bar 1: 10%", now);
  terminal.write(screen.refresh());
  EXPECT_THAT(terminal.lines, ElementsAre("start", "bar 0: 10%", "bar 1: 10%"));
  terminal.write(screen.print("a line\n"));
  EXPECT_THAT(terminal.lines, ElementsAre("start", "a line", "bar 0: 10%", "bar 1: 10%"));
  screen.set(1, "bar 1: 5%", now);
  terminal.write(screen.refresh());
  EXPECT_THAT(terminal.lines, ElementsAre("start", "a line", "bar 0: 10%", "bar 1: 5%"));
  screen.set(0, "", now);
  terminal.write(screen.print("bar 0: 100%\n"));
  EXPECT_THAT(terminal.lines, ElementsAre("start", "a line", "bar 0: 100%", "bar 1: 5%"));
  screen.set(1, "", now);
  terminal.write(screen.print("bar 1: 100%\n"));
  EXPECT_THAT(terminal.lines, ElementsAre("start", "a line", "bar 0: 100%", "bar 1: 100%", ""));
}

TEST_F(ScreenTest, AnUnfinishedLineIsShownAfterATenthOfASecond) {
  EXPECT_FALSE(screen.due());
  screen.set(0, "promp", now);
  screen.set(0, "prompt", now + 50ms);
  EXPECT_EQ(screen.due(), now + 100ms);
  EXPECT_FALSE(screen.shows(0));
  terminal.write(screen.print("a line\n"));
  EXPECT_THAT(terminal.lines, ElementsAre("a line", "")) << "not before";
  terminal.write(screen.refresh());
  EXPECT_TRUE(screen.shows(0));
  EXPECT_FALSE(screen.due());
  EXPECT_THAT(terminal.lines, ElementsAre("a line", "prompt"));
}

TEST_F(ScreenTest, WhatWasTypedStays) {
  screen.set(7, "(Pdb) ", now);
  terminal.write(screen.refresh());
  terminal.write("p x\n");  // as the terminal shows it
  screen.set(7, "", now);
  screen.leave();
  terminal.write(screen.print("42\n"));
  screen.set(7, "(Pdb) ", now);
  terminal.write(screen.refresh());
  EXPECT_THAT(terminal.lines, ElementsAre("(Pdb) p x", "42", "(Pdb) "));
}

TEST_F(ScreenTest, ALineTakesOneRowAndMovesNoCursor) {
  screen.resize(8, 24);
  screen.set(0, "\x1b[32mabc\tdef\x1b[0m, which is long\x1b[A", now);
  EXPECT_EQ(screen.refresh(), "\x1b[32mabc def\x1b[0m\x1b[0m");
  Screen umlauts;
  umlauts.resize(4, 24);
  umlauts.set(0, "\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f", now);
  EXPECT_EQ(umlauts.refresh(), "\xc3\xa4\xc3\xb6\xc3\xbc");
}

TEST_F(ScreenTest, WideCharactersTakeTwoColumns) {
  const auto shown = [](std::string line) {
    Screen narrow;
    narrow.resize(6, 24);
    narrow.set(0, std::move(line), Screen::Clock::now());
    return narrow.refresh();
  };
  EXPECT_EQ(shown("\xf0\x9f\x98\x80\xf0\x9f\x98\x80\xf0\x9f\x98\x80"),
            "\xf0\x9f\x98\x80\xf0\x9f\x98\x80");
  EXPECT_EQ(shown("\xe6\xbc\xa2\xe5\xad\x97xyz"), "\xe6\xbc\xa2\xe5\xad\x97x");
  EXPECT_EQ(shown("e\xcc\x81vwxyz"), "e\xcc\x81vwxy");
  EXPECT_EQ(shown("\xff\xff\xff\xff\xff\xff"), "\xff\xff\xff\xff\xff");
}

TEST_F(ScreenTest, LinksAndTitlesAreNotShown) {
  for (const char* line :
       {"a\x1b]8;;http://x/y\x1b\\link\x1b]8;;\x1b\\!", "a\x1b]0;title\alink!", "a\x1b(Blink!",
        "a\xc2\x9d"
        "0;title\xc2\x9clink!",
        "a\xc2\x85link!"}) {
    Screen one;
    one.set(0, line, now);
    EXPECT_EQ(one.refresh(), "alink!");
  }
}

TEST_F(ScreenTest, ManyBarsTakeHalfOfTheTerminal) {
  screen.resize(80, 6);
  for (int key = 0; key < 5; ++key) screen.set(key, std::string(1, "abcde"[key]), now);
  terminal.write(screen.refresh());
  EXPECT_THAT(terminal.lines, ElementsAre("c", "d", "e"));
}

}  // namespace
