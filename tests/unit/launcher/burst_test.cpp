#include "burst.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using tutti::launcher::Burst;

namespace {

std::string text_of(const std::vector<Burst::Piece>& pieces) {
  std::string text;
  for (const Burst::Piece& piece : pieces) text += piece.text;
  return text;
}

TEST(Burst, WaitsForAPauseButNotLong) {
  const Burst::Clock::time_point start = Burst::Clock::now();
  Burst burst;
  EXPECT_FALSE(burst.over(false));
  burst.add(1, "one\n", start);
  EXPECT_EQ(burst.over(false), start + 20ms);
  burst.add(2, "two\n", start + 190ms);
  EXPECT_EQ(burst.over(false), start + 200ms);
  EXPECT_EQ(text_of(burst.take()), "one\ntwo\n");
}

TEST(Burst, AnErrorWaitsForItsEndButNotForEver) {
  const Burst::Clock::time_point start = Burst::Clock::now();
  Burst burst;
  for (auto at = 0ms; at <= 4500ms; at += 500ms) burst.add(2, "frame\n", start + at);
  EXPECT_EQ(burst.over(true), start + 5s);
  EXPECT_EQ(burst.take(true, start + 5s).size(), 1U);
}

TEST(Burst, OutputDoesNotWaitForTheEndOfAnError) {
  const Burst::Clock::time_point start = Burst::Clock::now();
  Burst burst;
  burst.add(2, "Traceback\n", start);
  EXPECT_EQ(burst.over(true), start + 2s);
  burst.add(1, "one\n", start);
  burst.add(2, "  File\n", start);
  EXPECT_EQ(burst.over(true), start + 20ms);
  EXPECT_EQ(text_of(burst.take(true, start + 20ms)), "one\n");
  EXPECT_EQ(burst.over(true), start + 2s);
  EXPECT_EQ(text_of(burst.take(false, start + 20ms)), "Traceback\n  File\n");
}

}  // namespace
