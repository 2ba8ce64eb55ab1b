#include "burst.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using tutti::launcher::Burst;

namespace {

const Burst::Clock::time_point kStart = Burst::Clock::now();

std::string text_of(const std::vector<Burst::Piece>& pieces) {
  std::string text;
  for (const Burst::Piece& piece : pieces) text += piece.text;
  return text;
}

TEST(Burst, WaitsForAPauseButNotLong) {
  Burst burst;
  EXPECT_FALSE(burst.over(false));
  burst.add(1, "one\n", kStart);
  EXPECT_EQ(burst.over(false), kStart + 20ms);
  burst.add(2, "two\n", kStart + 190ms);
  EXPECT_EQ(burst.over(false), kStart + 200ms);
  EXPECT_EQ(text_of(burst.take()), "one\ntwo\n");
}

TEST(Burst, AnErrorWaitsForItsEndButNotForEver) {
  Burst burst;
  for (auto at = 0ms; at <= 4500ms; at += 500ms) burst.add(2, "frame\n", kStart + at);
  EXPECT_EQ(burst.over(true), kStart + 5s);
  EXPECT_EQ(burst.take(true, kStart + 5s).size(), 1U);
}

TEST(Burst, OutputDoesNotWaitForTheEndOfAnError) {
  Burst burst;
  burst.add(2, "Traceback\n", kStart);
  EXPECT_EQ(burst.over(true), kStart + 2s);
  burst.add(1, "one\n", kStart);
  burst.add(2, "  File\n", kStart);
  EXPECT_EQ(burst.over(true), kStart + 20ms);
  EXPECT_EQ(text_of(burst.take(true, kStart + 20ms)), "one\n");
  EXPECT_EQ(burst.over(true), kStart + 2s);
  EXPECT_EQ(text_of(burst.take(false, kStart + 20ms)), "Traceback\n  File\n");
}

}  // namespace
