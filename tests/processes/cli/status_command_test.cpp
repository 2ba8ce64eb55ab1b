#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "command_run.hpp"
#include "processes/launcher/tuttirun_process.hpp"
#include "record/flight_recorder.hpp"
#include "support/free_port.hpp"

namespace tutti::test {
namespace {

using record::EntryState;
using record::FlightRecorder;

constexpr std::chrono::seconds kLimit{60};

Answer status(const Words& arguments) {
  return answer_of(joined({{TUTTI_CLI, "status"}, arguments}));
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Two ranks that have made a sum, and wait for a signal.
class Job {
 public:
  explicit Job(const std::string& name)
      : run_({"-n", "2", "--rdzv-id", name, RANK_WORKER, "rest_until_told"}) {
    run_.read_until("there", 2);
  }
  ~Job() {
    run_.signal(SIGTERM);
    EXPECT_EQ(run_.wait(), 128 + SIGTERM) << run_.err;
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

 private:
  Tuttirun run_;
};

/// No other test's job has it.
std::string name_of_ours(const std::string& rest) {
  return fmt::format("status-test-{}-{}", ::getpid(), rest);
}

TEST(StatusCommand, TellsWhatTheRanksOfAProcessDo) {
  const std::string pid = std::to_string(::getpid());
  const Answer nothing = status({pid});
  EXPECT_EQ(nothing.code, 1);
  EXPECT_TRUE(has(nothing.text, "has no flight recorder in use")) << nothing.text;
  const auto recorder = std::move(FlightRecorder::make(2, 4, "node-1").value());
  Collective barrier;
  barrier.kind = Kind::barrier;
  const std::uint64_t number =
      recorder->called(recorder->add_group(1, "world", 2, 4), 7, barrier, EntryState::running);
  recorder->waits_for(number, 3);
  const Answer told = status({pid});
  EXPECT_EQ(told.code, 0) << told.text;
  EXPECT_TRUE(has(told.text, "barrier in group 'world', operation 7, for ")) << told.text;
  EXPECT_TRUE(has(told.text, " s, waits for rank 3\n")) << told.text;
  const Answer list = status({});
  EXPECT_EQ(list.code, 0) << list.text;
  EXPECT_TRUE(has(list.text, pid)) << list.text;
}

TEST(StatusCommand, FindsAJobByItsName) {
  const std::string name = name_of_ours("one");
  const Job job(name);
  for (const std::string& given : {name, name.substr(0, name.size() - 1)}) {
    const Answer told = status({given});
    EXPECT_EQ(told.code, 0) << told.text;
    EXPECT_TRUE(has(told.text, "\n     0 ") && has(told.text, "\n     1 ")) << told.text;
    EXPECT_TRUE(has(told.text, "in no call")) << told.text;
  }
  const Answer list = status({});
  EXPECT_EQ(list.code, 0) << list.text;
  EXPECT_TRUE(has(list.text, name)) << list.text;
  EXPECT_TRUE(has(list.text, "     2  tuttirun -n 2 --rdzv-id ")) << list.text;
}

// Of two nodes one has come.
TEST(StatusCommand, TellsForWhatAJobWaitsThatHasNotBegun) {
  const std::string name = name_of_ours("begins");
  const std::string port = std::to_string(free_port());
  const auto of_node = [&](const std::string& number) {
    return Words{"--nnodes",
                 "2",
                 "--node-rank",
                 number,
                 "-n",
                 "1",
                 "--master-addr",
                 "127.0.0.1",
                 "--master-port",
                 port,
                 "--rdzv-id",
                 name,
                 RANK_WORKER,
                 "init",
                 "env",
                 "-",
                 "-",
                 "60",
                 "1"};
  };
  auto late = std::make_unique<Tuttirun>(of_node("1"), Words{"TUTTI_STALL_WARNING=0.1"});
  late->read_error_until("has waited for");
  const Answer waits = status({std::to_string(late->pid())});
  EXPECT_EQ(waits.code, 0) << waits.text;
  EXPECT_TRUE(has(waits.text, "begins the job for ")) << waits.text;
  EXPECT_TRUE(has(waits.text, ", waits for the store at 127.0.0.1:" + port)) << waits.text;
  late.reset();
  Tuttirun run(of_node("0"), {"TUTTI_STALL_WARNING=0.1"});
  run.read_error_until("rank 1 has not joined");
  run.read_error_until("has not come");
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  Answer told;
  do {
    told = status({name});
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << told.text;
  } while (!has(told.text, "\n     - ") || !has(told.text, "waits for 1 of 2 ranks: 1\n"));
  EXPECT_TRUE(has(told.text, "\n     0 ") && has(told.text, "in init for ")) << told.text;
  EXPECT_TRUE(has(told.text, "waits for node 1 of 2\n")) << told.text;
  EXPECT_TRUE(has(status({}).text, "     1  tuttirun --nnodes 2 ")) << status({}).text;
  Tuttirun second(of_node("1"));
  EXPECT_EQ(second.wait(), 0) << second.err;
  EXPECT_EQ(run.wait(), 0) << run.err;
}

TEST(StatusCommand, AnUnknownOrAmbiguousNameIsAnsweredWithTheJobs) {
  const Job first(name_of_ours("x1"));
  const Job second(name_of_ours("x2"));
  const Answer several = status({name_of_ours("x")});
  EXPECT_EQ(several.code, 1);
  EXPECT_TRUE(has(several.text, "several jobs of yours on this host have names that begin with"))
      << several.text;
  const Answer unknown = status({name_of_ours("y")});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_TRUE(has(unknown.text, "no job of yours on this host has the name")) << unknown.text;
  for (const Answer& told : {several, unknown}) {
    EXPECT_TRUE(has(told.text, name_of_ours("x1"))) << told.text;
    EXPECT_TRUE(has(told.text, name_of_ours("x2"))) << told.text;
  }
}

// Of a sub-group, too, the ranks are told by their numbers in the world: those of the rows.
TEST(StatusCommand, AndTheTraceOfAKilledRankTellWhoWaitsForWhom) {
  const std::string name = name_of_ours("waits");
  CommandRun run({TUTTIRUN, "-n", "4", "--rdzv-id", name, "--record", "@records", RANK_WORKER,
                  "stalled", "elsewhere"},
                 {});
  const Words rows{" barrier in group 'world', operation 3, for ",
                   " barrier in group 'world[1,2]', operation 1, ",
                   " barrier in group 'world', operation 3, for ",
                   " barrier in group 'world', operation 3, for "};
  const auto waits_for = [](int rank) { return rank == 1 ? 2 : 1; };
  const auto row_of = [](const std::string& text, int rank) {
    const std::size_t at = text.find(fmt::format("\n{:>6} ", rank));
    return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  const auto all_wait = [&](const std::string& text) {
    for (int rank = 0; rank < 4; ++rank) {
      const std::string row = row_of(text, rank);
      if (!has(row, rows[static_cast<std::size_t>(rank)]) ||
          !row.ends_with(fmt::format(" s, waits for rank {}", waits_for(rank))))
        return false;
    }
    return true;
  };
  Answer told;
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (!all_wait((told = status({name})).text))
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << told.text << run.output();
  const int killed = std::stoi(row_of(told.text, 1).substr(6));
  ASSERT_EQ(::kill(killed, SIGKILL), 0);
  EXPECT_EQ(run.finish(), 128 + SIGKILL) << run.output();
  CommandRun traced({TUTTI_CLI, "trace", (run.folder() / "records").string(), "-o", "-"}, {});
  EXPECT_EQ(traced.finish(), 0) << traced.output();
  const auto trace = nlohmann::json::parse(traced.output());
  std::map<long, int> ranks;        // by row
  std::map<int, std::string> last;  // of each rank
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] == "thread_name")
      ranks[event["tid"]] = std::stoi(event["args"]["name"].get<std::string>().substr(5));
    if (event["ph"] == "X") last[ranks.at(event["tid"])] = event["name"];
  }
  EXPECT_EQ(last[1], "barrier (waits for rank 2)");
  for (const int rank : {0, 2, 3}) {
    // tuttirun may have ended it before it has seen that its operation has failed.
    EXPECT_TRUE(last[rank] == "barrier (failed, waited for rank 1)" ||
                last[rank] == "barrier (waits for rank 1)")
        << rank << ": " << last[rank];
  }
}

}  // namespace
}  // namespace tutti::test
