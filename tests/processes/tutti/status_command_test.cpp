#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/format.hpp"
#include "command_run.hpp"
#include "processes/tuttirun/tuttirun_process.hpp"
#include "record/flight_recorder.hpp"
#include "support/free_port.hpp"

namespace tutti::test {
namespace {

using record::EntryState;
using record::FlightRecorder;
using testing::AllOf;
using testing::FieldsAre;
using testing::HasSubstr;

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
  ~Job() { run_.expect_ended_by(SIGTERM); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

 private:
  Tuttirun run_;
};

/// No other test's job has it.
std::string name_of_ours(const std::string& rest) {
  return base::format("status-test-{}-{}", ::getpid(), rest);
}

TEST(StatusCommand, TellsWhatTheRanksOfAProcessDo) {
  const std::string pid = std::to_string(::getpid());
  EXPECT_THAT(status({pid}), FieldsAre(1, HasSubstr("has no flight recorder in use")));
  const auto recorder = std::move(FlightRecorder::make(2, 4, "node-1").value());
  const Collective barrier;
  const std::uint64_t number =
      recorder->called(recorder->add_group(1, "world", 2, 4), 7, barrier, EntryState::running);
  recorder->waits_for(number, 3);
  EXPECT_THAT(status({pid}),
              FieldsAre(0, AllOf(HasSubstr("barrier in group 'world', operation 7, for "),
                                 HasSubstr(" s, waits for rank 3\n"))));
  EXPECT_THAT(status({}), FieldsAre(0, HasSubstr(pid)));
}

TEST(StatusCommand, TellsForHowLongOthersHaveWaitedForARank) {
  const auto first = std::move(FlightRecorder::make(0, 2, "node-1").value());
  const auto late = std::move(FlightRecorder::make(1, 2, "node-1").value());
  Collective barrier;
  barrier.kind = Kind::barrier;
  const auto call = [&](FlightRecorder& recorder, int rank) {
    return recorder.called(recorder.add_group(9, "world", rank, 2), 1, barrier,
                           EntryState::running);
  };
  (void)call(*first, 0);
  (void)late->add_group(9, "world", 1, 2);
  const Answer told = status({std::to_string(::getpid())});
  EXPECT_THAT(told.text, testing::ContainsRegex("per second +waited for +now"));
  EXPECT_THAT(told.text, testing::ContainsRegex("\n +0 .* 0\\.0 s +barrier in group 'world'"));
  // It waits at least from one look of the command to the next.
  EXPECT_THAT(told.text,
              testing::ContainsRegex("\n +1 .* (0\\.[5-9]|[1-9][0-9]*\\.[0-9]) s +in no call"));
}

TEST(StatusCommand, FindsAJobByItsName) {
  const std::string name = name_of_ours("one");
  const Job job(name);
  for (const std::string& given : {name, name.substr(0, name.size() - 1)}) {
    EXPECT_THAT(status({given}), FieldsAre(0, AllOf(HasSubstr("\n     0 "), HasSubstr("\n     1 "),
                                                    HasSubstr("in no call"))));
  }
  EXPECT_THAT(status({}),
              FieldsAre(0, AllOf(HasSubstr(name), HasSubstr("     2  tuttirun -n 2 --rdzv-id "))));
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
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
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
  const auto both = AllOf(HasSubstr(name_of_ours("x1")), HasSubstr(name_of_ours("x2")));
  const std::string several = "several jobs of yours on this host have names that begin with";
  EXPECT_THAT(status({name_of_ours("x")}), FieldsAre(1, AllOf(both, HasSubstr(several))));
  EXPECT_THAT(status({name_of_ours("y")}),
              FieldsAre(1, AllOf(both, HasSubstr("no job of yours on this host has the name"))));
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
    const std::size_t at = text.find(base::format("\n{:>6} ", rank));
    return at == std::string::npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  const auto all_wait = [&](const std::string& text) {
    for (int rank = 0; rank < 4; ++rank) {
      const std::string row = row_of(text, rank);
      if (!has(row, rows[static_cast<std::size_t>(rank)]) ||
          !row.ends_with(base::format(" s, waits for rank {}", waits_for(rank))))
        return false;
    }
    return true;
  };
  Answer told;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!all_wait((told = status({name})).text))
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << told.text << run.output();
  const int killed = std::stoi(row_of(told.text, 1).substr(6));
  ASSERT_EQ(::kill(killed, SIGKILL), 0);
  EXPECT_EQ(run.finish(), 128 + SIGKILL) << run.output();
  const Answer traced = answer_of({TUTTI_CLI, "trace", run.at("records").string(), "-o", "-"});
  EXPECT_EQ(traced.code, 0) << traced.text;
  const auto trace = nlohmann::json::parse(traced.text);
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
