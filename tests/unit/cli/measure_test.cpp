#include "bench/measure.hpp"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "bench/report.hpp"

namespace tutti::bench {
namespace {

Series series(std::string library, std::vector<double> seconds) {
  Series one;
  one.name = std::move(library);
  one.seconds = std::move(seconds);
  return one;
}

Point point(std::vector<Series> all) {
  Point one{Operation::all_reduce, 2, 8, {}, 0, {}};
  one.series = std::move(all);
  return one;
}

// The machine slows down fourfold in the third round: the ratio of medians would be 4.
TEST(Measure, RatioIsTakenRoundByRound) {
  const Point one = point({series("tutti", {1, 4, 4}), series("impi", {1, 1, 4})});
  EXPECT_EQ(one.ratio(), 1.0);
}

TEST(Measure, BestPeerIsNeverOursAndNeverOneThatFailed) {
  Point one = point(
      {series("tutti", {1}), series("impi", {}), series("gloo", {9}), series("openmpi", {3})});
  ASSERT_NE(one.best_peer(), nullptr);
  EXPECT_EQ(one.best_peer()->name, "openmpi");
  EXPECT_DOUBLE_EQ(one.ratio().value(), 1.0 / 3);
  EXPECT_FALSE(point({series("tutti", {1})}).ratio().has_value());
  EXPECT_FALSE(point({series("impi", {1})}).ratio().has_value());
}

TEST(Measure, StateIsThatOfAllHops) {
  Point one = point({});
  EXPECT_EQ(one.state(), State::unknown);
  one.hops = {30e-9, 50e-9};
  EXPECT_EQ(one.state(), State::near);
  one.hops = {58e-9, 70e-9, 68e-9};
  EXPECT_EQ(one.state(), State::middle);
  one.hops = {190e-9, 250e-9};
  EXPECT_EQ(one.state(), State::far);
  one.hops = {30e-9, 190e-9, 30e-9};
  EXPECT_EQ(one.state(), State::mixed);
}

TEST(Report, RowHoldsFiguresBestPeerAndRatio) {
  const Table table({"tutti", "impi", "gloo"});
  Point one = point({series("tutti", {0.5e-6}), series("impi", {1e-6})});
  one.series.push_back(series("gloo", {}));
  one.series.back().failure = "gloo with 2 ranks: rank 1 is gone";
  one.hops = {30e-9};
  one.others = 0.17;
  const std::string row = table.row(one);
  for (const char* text :
       {"all_reduce", "near", "30", "17%", "0.50", "1.00", "failed", "impi", "rank 1 is gone"}) {
    EXPECT_NE(row.find(text), std::string::npos) << text << " in " << row;
  }
  EXPECT_NE(table.head().find("ratio"), std::string::npos);
}

}  // namespace
}  // namespace tutti::bench
