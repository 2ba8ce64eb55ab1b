#pragma once

#include <gtest/gtest.h>

#include "support/sleeper.hpp"

namespace tutti::transport::test {

/// A promise to be done within so many ms. What this machine is late in waking threads comes on
/// top.
class Promised {
 public:
  explicit Promised(double ms) : ms_(ms) {}
  /// How long it took since this was made, in ms.
  double expect_kept() {
    const long long end = tutti::test::Sleeper::now_ns();
    const double took_ms = static_cast<double>(end - start_) / 1e6;
    testing::Test::RecordProperty("milliseconds", static_cast<int>(took_ms));
    EXPECT_LT(took_ms, sleeper_.bound_ms(ms_, start_, end));
    return took_ms;
  }

 private:
  double ms_;
  tutti::test::Sleeper sleeper_;
  long long start_ = tutti::test::Sleeper::now_ns();
};

}  // namespace tutti::transport::test
