#include "apps/bench/figures.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <vector>

#include "measured_point.hpp"

namespace tutti::bench {
namespace {

TEST(Figures, TimesAreThoseOfOsu) {
  const Point point = point_of(Operation::all_reduce, 4, 4096, {measured("tutti", 10)});
  const auto figures = figures_of(point, point.series[0]).value();
  EXPECT_DOUBLE_EQ(figures.avg, 10e-6) << "the median of the rounds";
  EXPECT_DOUBLE_EQ(figures.min, 9e-6);
  EXPECT_DOUBLE_EQ(figures.max, 11e-6);
  EXPECT_NEAR(figures.p50.value(), 50.5e-6, 1e-12);
  EXPECT_NEAR(figures.p99.value(), 99.01e-6, 1e-12);
  EXPECT_DOUBLE_EQ(figures.voluntary, 0.5) << "20 on 4 ranks in 10 calls";
  EXPECT_DOUBLE_EQ(figures.involuntary, 0.025);
  EXPECT_EQ(element_count(point), 1024U);
}

TEST(Figures, BandwidthsAreThoseOfNcclTests) {
  constexpr std::uint64_t kMega = 1 << 20;
  // What they make of 1 MiB on 4 ranks: the size S in bytes, and busbw / algbw.
  using Row = std::tuple<Operation, std::uint64_t, std::optional<double>>;
  const std::vector<Row> rows{{Operation::all_reduce, kMega, 1.5},
                              {Operation::broadcast, kMega, 1.0},
                              {Operation::reduce, kMega, 1.0},
                              {Operation::all_gather, 4 * kMega, 0.75},
                              {Operation::reduce_scatter, 4 * kMega, 0.75},
                              {Operation::all_to_all, 4 * kMega, 0.75},
                              {Operation::gather, 4 * kMega, 0.75},
                              {Operation::scatter, 4 * kMega, 0.75},
                              {Operation::send, 2 * kMega, 1.0},
                              {Operation::recv, 64 * kMega, 1.0},
                              {Operation::scan, kMega, std::nullopt},
                              {Operation::exclusive_scan, kMega, std::nullopt},
                              {Operation::barrier, 0, std::nullopt}};
  ASSERT_EQ(rows.size(), all_operations().size());
  for (const auto& [operation, moved, factor] : rows) {
    const std::uint64_t bytes = operation == Operation::barrier ? 0 : kMega;
    SCOPED_TRACE(name_of(operation));
    EXPECT_EQ(bytes_moved(operation, bytes, 4), moved);
    EXPECT_EQ(bus_factor(operation, 4), factor);
    const Point point = point_of(operation, 4, bytes, {measured("tutti", 100)});
    const auto figures = figures_of(point, point.series[0]).value();
    EXPECT_EQ(figures.algbw.has_value(), moved > 0);
    EXPECT_EQ(figures.busbw.has_value(), factor.has_value());
    if (!figures.algbw) continue;
    EXPECT_DOUBLE_EQ(*figures.algbw, static_cast<double>(moved) / 100e-6);
    if (!factor) continue;
    EXPECT_DOUBLE_EQ(*figures.busbw, *figures.algbw * *factor);
  }
}

TEST(Figures, ThereAreNoneOfALibraryThatFailed) {
  const Point point = point_of(Operation::all_reduce, 2, 8, {failed("gloo", "rank 1 is gone")});
  EXPECT_FALSE(figures_of(point, point.series[0]).has_value());
}

}  // namespace
}  // namespace tutti::bench
