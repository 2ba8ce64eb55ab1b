#include "bench/measure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bench/library.hpp"
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

TEST(Measure, EachOfOursHasARatioToTheBestPeer) {
  const Point one = point({series("tutti", {4}), series("unchecked", {1}), series("openmpi", {2})});
  EXPECT_EQ(one.best_peer()->name, "openmpi");
  EXPECT_EQ(one.ratio(), 2.0);
  EXPECT_EQ(one.ratio(kOursUnchecked), 0.5);
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

TEST(Report, OursUncheckedHasItsRatio) {
  const Point one =
      point({series("tutti", {4e-6}), series("unchecked", {1e-6}), series("mpich", {2e-6})});
  const Table table({"tutti", "unchecked", "mpich"});
  EXPECT_TRUE(table.head().ends_with("ratio  unchecked ratio\n")) << table.head();
  EXPECT_TRUE(table.row(one).ends_with("mpich     2.00             0.50\n")) << table.row(one);
}

/// The words and settings before the worker's own.
std::vector<std::string> launcher_words(const Program& program, const std::string& worker) {
  const auto end = std::find(program.argv.begin(), program.argv.end(), worker);
  EXPECT_NE(end, program.argv.end()) << worker;
  std::vector<std::string> words(program.argv.begin(), end);
  for (const auto& [name, value] : program.environment) {
    if (!name.starts_with("TUTTI_")) words.push_back(name + "=" + value);
  }
  return words;
}

std::string setting(const Program& program, const std::string& wanted) {
  for (const auto& [name, value] : program.environment) {
    if (name == wanted) return value;
  }
  return {};
}

TEST(Library, OursOnAnMpiIsStartedAsThatMpiIs) {
  for (const std::string& mpi : known_mpis()) {
    for (const int cpus : {1, 4}) {
      const LaunchRequest bare{mpi, 2, cpus, "/programs", "/run", "/run/socket"};
      const Launch theirs = plan_launch(bare);
      for (const std::string library : {kOurs, kOursUnchecked}) {
        const Launch ours =
            plan_launch({library, 2, cpus, "/programs", "/run", "/run/socket", mpi});
        ASSERT_EQ(ours.programs.size(), 1U);
        const Program& program = ours.programs[0];
        EXPECT_EQ(launcher_words(program, "/programs/tutti_bench_tutti"),
                  launcher_words(theirs.programs.at(0), "/programs/tutti_bench_" + mpi));
        EXPECT_EQ(program.argv.back(), "/run/socket");
        EXPECT_EQ(setting(program, "TUTTI_BACKEND"), "mpi");
        EXPECT_EQ(setting(program, "TUTTI_AGREE"), library == kOurs ? "normal" : "off");
        const std::string file = setting(program, "TUTTI_MPI_LIBRARY");
        EXPECT_NE(file.find(mpi == "mpich" ? "mpi" : "libmpi"), std::string::npos) << file;
      }
    }
  }
}

}  // namespace
}  // namespace tutti::bench
