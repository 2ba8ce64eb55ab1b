#include "apps/bench/measure.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "apps/bench/call_timer.hpp"
#include "apps/bench/library.hpp"
#include "measured_point.hpp"

namespace tutti::bench {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

Series series(std::string library, std::vector<double> seconds) {
  return {.name = std::move(library), .seconds = std::move(seconds)};
}

Point point(std::vector<Series> all) {
  return point_of(Operation::all_reduce, 2, 8, std::move(all));
}

LaunchRequest on_two_hosts(const std::string& library) {
  LaunchRequest request{library, 4, 2, "/programs", "/folder", "/folder/socket"};
  request.hosts = {{"10.0.0.1", {"enter", "one"}}, {"10.0.0.2", {"enter", "two"}}};
  request.remote_shell = "/folder/shell";
  return request;
}

TEST(Launch, OursIsStartedOnEachHost) {
  const Launch launch = plan_launch(on_two_hosts(kOurs));
  ASSERT_EQ(launch.programs.size(), 4U);
  const Program& third = launch.programs[2];
  ASSERT_GT(third.argv.size(), 3U);
  EXPECT_THAT((std::vector(third.argv.begin(), third.argv.begin() + 3)),
              ElementsAre("enter", "two", "/programs/tutti_bench_tutti"));
  for (const auto& [name, value] : {std::pair("RANK", "2"),
                                    {"LOCAL_RANK", "0"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "10.0.0.1"}})
    EXPECT_THAT(third.environment, Contains(testing::Pair(name, value)));
  // Two cores are not one for each of four ranks, though each host has two.
  EXPECT_THAT(third.argv, Not(Contains("--pin")));
}

TEST(Launch, MpisAreStartedOnTheFirstHostWhichReachesTheOthers) {
  for (const auto& library : known_mpis()) {
    const Launch launch = plan_launch(on_two_hosts(library));
    ASSERT_EQ(launch.programs.size(), 1U) << library;
    const Program& program = launch.programs[0];
    EXPECT_EQ(program.argv.at(1), "one") << library;
    std::string all;
    for (const auto& word : program.argv) all += word + " ";
    for (const auto& [name, value] : program.environment) all += name + "=" + value + " ";
    EXPECT_THAT(all, AllOf(HasSubstr("/folder/shell "), HasSubstr("10.0.0.2"), HasSubstr("e0 ")))
        << library;
    LaunchRequest wide = on_two_hosts(library);
    EXPECT_THAT(program.argv, Not(Contains("--pin"))) << library;
    wide.cpus = 4;
    EXPECT_THAT(plan_launch(wide).programs[0].argv, Contains("--pin")) << library;
  }
}

TEST(Links, RateAndDelayAreRead) {
  const LinkShape shape = parse_link_shape("1Gbit,1.5ms");
  EXPECT_EQ(shape.bytes_per_second, 125e6);
  EXPECT_EQ(shape.delay, std::chrono::microseconds(1500));
  EXPECT_EQ(parse_link_shape("100Mbit,20us").bytes_per_second, 12.5e6);
  for (const std::string text :
       {"", "1Gbit", "1G,1ms", "1Gbit,1", "-1Gbit,1ms", "Gbit,1ms", "1Gbit,1ms,"}) {
    EXPECT_THAT([&] { (void)parse_link_shape(text); },
                ThrowsMessage<std::invalid_argument>(HasSubstr("'" + text + "'")));
  }
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

/// Gives the samples that it was made with, for each rank.
class Answering final : public Job {
 public:
  Answering(std::vector<std::vector<double>> samples, bool one_clock)
      : samples_(std::move(samples)), one_clock_(one_clock) {}
  [[nodiscard]] std::string version() const override { return "answering"; }
  [[nodiscard]] std::string settings() const override { return {}; }
  [[nodiscard]] std::vector<pid_t> processes() const override { return {}; }
  [[nodiscard]] bool has_one_clock() const override { return one_clock_; }
  std::vector<RankAnswer> ask(const Command& command, Clock::duration) override {
    asked = command;
    std::vector<RankAnswer> answers;
    for (const auto& samples : samples_) answers.push_back({{}, samples});
    return answers;
  }

  Command asked;

 private:
  std::vector<std::vector<double>> samples_;
  bool one_clock_;
};

constexpr std::chrono::seconds kTimeout(1);

// Rank 0 leaves at 2 what rank 1 enters at 5.
TEST(CallTimer, BarriersAreVerifiedWhereClocksCanBeCompared) {
  const std::vector<std::vector<double>> times{{1, 2, 6, 7}, {5, 6, 6, 7}};
  const CallTimer calls(Operation::barrier, 0, Mode::loop, kTimeout);
  Answering one_host(times, true);
  EXPECT_THROW(calls.verify(one_host), JobError);
  Answering two_hosts(times, false);
  EXPECT_NO_THROW(calls.verify(two_hosts));
}

TEST(CallTimer, SomeCallsOfALoopAreTimedByThemselvesSoThatItTakesNoPart) {
  Answering job({{1, 2, 3}, {3, 4, 11}}, true);
  const CallTimer calls(Operation::all_reduce, 8, Mode::loop, kTimeout);
  using Alone = CallTimer::Alone;
  // Two readings of the clock take 50 ns, a fifth of a call: each 20th call is timed.
  EXPECT_EQ(calls.time(job, 0, 10000, 250e-9, Alone::some).calls, (std::vector<double>{2, 3, 7}));
  EXPECT_EQ(job.asked.parameter, 20U);
  (void)calls.time(job, 0, 200000, 1e-6, Alone::some);  // no more than 5,000
  EXPECT_EQ(job.asked.parameter, 40U);
  (void)calls.time(job, 0, 100, 1, Alone::some);
  EXPECT_EQ(job.asked.parameter, 1U);
  (void)calls.time(job, 0, 100, 1);
  EXPECT_EQ(job.asked.parameter, 0U);
}

TEST(CallTimer, RanksBeginTogetherWhereLinksHaveADelay) {
  Settings settings;
  settings.mode = Mode::sync;
  Answering job({{1}, {3}}, true);
  for (const unsigned lead : {0U, 4000U}) {
    CallTimer(Operation::reduce, 8, settings.mode, kTimeout, lead_of(settings)).time(job, 0, 1, 1);
    EXPECT_EQ(job.asked.parameter, lead);
    settings.links = parse_link_shape("1Gbit,1ms");
  }
}

TEST(CallTimer, RanksThatTimeOtherCallsAreRefused) {
  Answering job({{1, 2}, {3}}, true);
  const CallTimer calls(Operation::all_reduce, 8, Mode::loop, kTimeout);
  EXPECT_THROW((void)calls.time(job, 0, 3, 1, CallTimer::Alone::some), JobError);
}

TEST(CallTimer, SyncTakesTheSlowestRankOfEachCallAndTheMeanOfEachRank) {
  Answering job({{1, 2, 3}, {3, 1, 11}}, true);
  const Measured measured =
      CallTimer(Operation::all_reduce, 8, Mode::sync, kTimeout).time(job, 0, 3, 0);
  EXPECT_EQ(measured.seconds, 3) << "the median of 3, 2 and 11";
  EXPECT_EQ(measured.fastest, 2);
  EXPECT_EQ(measured.slowest, 5);
  EXPECT_EQ(measured.mean, 3.5);
  EXPECT_EQ(measured.calls, (std::vector<double>{2, 1.5, 7}));
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
        const std::string agree = library == kOurs ? "normal" : "off";
        EXPECT_THAT(program.environment, Contains(testing::Pair("TUTTI_BACKEND", "mpi")));
        EXPECT_THAT(program.environment, Contains(testing::Pair("TUTTI_AGREE", agree)));
        EXPECT_THAT(program.environment,
                    Contains(testing::Pair("TUTTI_MPI_LIBRARY",
                                           HasSubstr(mpi == "mpich" ? "mpi" : "libmpi"))));
      }
    }
  }
}

}  // namespace
}  // namespace tutti::bench
