// `tutti bench` as the program of a job that somebody else launches.

#include <nlohmann/json.hpp>
#include <tutti/launch.hpp>

#include "apps/bench/call_timer.hpp"
#include "apps/bench/joined_job.hpp"
#include "command_run.hpp"
#include "support/free_port.hpp"

using testing::HasSubstr;

namespace {

using tutti::test::CommandRun;
using tutti::test::joined;
using tutti::test::times_in;
using tutti::test::Words;

/// With these variables.
Words environment(const Words& more = {}) {
  return joined({{"PATH=/usr/bin:/bin", "HOME=" + testing::TempDir()}, more});
}

const Words kBench{TUTTI_CLI, "bench",    "all_reduce", "barrier",  "all_gather", "--sizes",
                   "8,4K",    "--rounds", "2",          "--budget", "2",          "--json",
                   "@json",   "--csv",    "@csv",       "--html",   "@html"};

/// That rank 0 has printed and written what two ranks took.
void check_two_ranks(const CommandRun& run) {
  const std::string output = run.output();
  EXPECT_EQ(times_in(output, "all_reduce, 2 ranks"), 1) << "rank 0 prints: " << output;
  EXPECT_EQ(times_in(output, "launched by another program, on 1 host"), 1) << output;
  const auto json = nlohmann::json::parse(run.file("json"));
  ASSERT_EQ(json.at("points").size(), 5U);
  for (const auto& point : json.at("points")) {
    EXPECT_EQ(point.at("ranks"), 2);
    const auto& ours = point.at("libraries").at("tutti");
    EXPECT_EQ(ours.at("us_per_round").size(), 2U) << point;
    EXPECT_GT(ours.at("avg_us").get<double>(), 0) << point;
    EXPECT_GE(ours.at("p99_us").get<double>(), ours.at("p50_us").get<double>()) << point;
  }
  EXPECT_EQ(times_in(run.file("csv"), "\n"), 6);
  EXPECT_THAT(run.file("html"), HasSubstr("all_gather, 2 ranks"));
}

/// `launcher`: the words that start two ranks.
void measures_two_ranks(const Words& launcher) {
  CommandRun run(joined({launcher, kBench}), environment());
  ASSERT_EQ(run.finish(), 0) << run.output();
  check_two_ranks(run);
}

TEST(BenchInJob, MeasuresTheRanksOfTuttirun) {
  measures_two_ranks({TUTTIRUN, "--nproc-per-node", "2"});
}

#ifdef MPIEXEC
TEST(BenchInJob, MeasuresTheRanksOfMpirun) {
  measures_two_ranks({MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", "2"});
}
#endif

// What srun tells its processes.
TEST(BenchInJob, MeasuresTheRanksOfSrun) {
  const auto of_rank = [](const std::string& rank) {
    return environment({"SLURM_PROCID=" + rank, "SLURM_LOCALID=" + rank, "SLURM_NTASKS=2",
                        "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_ID=0",
                        "SLURM_JOB_ID=" + std::to_string(::getpid())});
  };
  CommandRun first(kBench, of_rank("0"));
  CommandRun second(kBench, of_rank("1"));
  EXPECT_EQ(first.finish(), 0) << first.output();
  EXPECT_EQ(second.finish(), 0) << second.output();
  check_two_ranks(first);
  EXPECT_EQ(second.output(), "");
}

TEST(BenchInJob, RefusesOptionsAboutWhatItWouldStart) {
  for (const Words& options :
       {Words{"--ranks", "2"}, {"--against", "gloo"}, {"--without-ours"}, {"--programs", "/"}}) {
    CommandRun run(joined({{TUTTI_CLI, "bench"}, options}),
                   environment({"RANK=1", "WORLD_SIZE=2"}));
    EXPECT_EQ(run.finish(), 1);
    EXPECT_THAT(run.output(),
                HasSubstr(options[0] + " cannot be used here: the environment says that "
                                       "this process is rank 1 of a job of 2"));
  }
}

TEST(BenchInJob, ARankThatIsMissingEndsTheOthersAfterTheTimeout) {
  const std::string free_port = std::to_string(::free_port());
  CommandRun run(
      {TUTTI_CLI, "bench", "--timeout", "1"},
      environment({"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + free_port}));
  EXPECT_EQ(run.finish(), 1);
  EXPECT_THAT(run.output(), HasSubstr("rank 1"));
}

// What a started worker is asked, too, with the answers of all ranks at rank 0.
TEST(JoinedJob, EveryRankObeysRankZero) {
  using namespace tutti::bench;
  tutti::run_threads(3, [](tutti::ProcessGroup& world) {
    JoinedJob job(world);
    if (job.rank() != 0) return job.follow();
    EXPECT_TRUE(job.has_one_clock());
    EXPECT_EQ(job.processes().size(), 3U);
    const CallTimer calls(Operation::all_gather, 4096, Mode::loop, std::chrono::seconds(30));
    calls.verify(job);
    const Measured measured = calls.time(job, 1, 10, 1, CallTimer::Alone::some);
    EXPECT_GT(measured.fastest, 0);
    EXPECT_LE(measured.fastest, measured.mean);
    EXPECT_LE(measured.mean, measured.slowest);
    EXPECT_EQ(measured.seconds, measured.slowest);
    EXPECT_EQ(measured.calls.size(), 10U);
    CallTimer(Operation::barrier, 0, Mode::loop, std::chrono::seconds(30)).verify(job);
    const Measured sync =
        CallTimer(Operation::reduce, 8, Mode::sync, std::chrono::seconds(30)).time(job, 1, 5, 0);
    EXPECT_EQ(sync.calls.size(), 5U);
  });
}

TEST(BenchStart, TimesJobsOfTwoBuildsInTurns) {
  const std::filesystem::path programs = std::filesystem::path(TUTTI_CLI).parent_path();
  CommandRun run({TUTTI_CLI, "bench", "start", "--ranks", "1,17", "--rounds", "2",
                  "--against-build", programs.parent_path().string()},
                 environment());
  ASSERT_EQ(run.finish(), 0) << run.output();
  const Words lines = tutti::test::lines_of(run.output());
  ASSERT_EQ(lines.size(), 4U) << run.output();
  EXPECT_THAT(lines[1], testing::ContainsRegex("ranks +median +min +max +other +ratio"));
  EXPECT_THAT(lines[3], testing::ContainsRegex("^ +17( +[0-9]+\\.[0-9]+){5}$"));
}

TEST(BenchStart, NamesAJobThatFails) {
  CommandRun run({TUTTI_CLI, "bench", "start", "--ranks", "2", "--rounds", "1"},
                 environment({"TUTTI_TRANSPORT=none"}));
  EXPECT_EQ(run.finish(), 1);
  EXPECT_THAT(run.output(), HasSubstr("a job of 2 ranks of "));
}

}  // namespace
