#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "command_run.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// `tutti bench` with the stand-in for our library, or other programs.
class Bench : public tutti::test::CommandRun {
 public:
  Bench(const std::string& fault, const std::vector<std::string>& arguments,
        const std::string& programs = FAKE_LIBRARY_FOLDER, std::optional<int> errors = {},
        const std::string& variable = "LANG=C")
      : CommandRun(argv(arguments, programs),
                   {"FAKE_LIBRARY=" + fault, "PATH=/usr/bin:/bin", variable}, errors) {}

 private:
  static std::vector<std::string> argv(const std::vector<std::string>& arguments,
                                       const std::string& programs) {
    std::vector<std::string> words{TUTTI_CLI, "bench", "--programs", programs};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }
};

/// The folder of the socket of every running stand-in.
std::vector<fs::path> running_workers() {
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    std::string program;
    std::string word;
    std::getline(file, program, '\0');
    if (!program.starts_with(FAKE_LIBRARY_FOLDER)) continue;
    while (std::getline(file, word, '\0')) {
      if (word == "--socket" && std::getline(file, word, '\0')) {
        folders.push_back(fs::path(word).parent_path().parent_path());
      }
    }
  }
  return folders;
}

TEST(BenchCommand, MeasuresEveryPointInEveryRound) {
  Bench bench("none", {"all_reduce", "broadcast", "barrier", "--ranks", "1,2,3", "--sizes",
                       "4,4K,200000", "--rounds", "2", "--budget", "2", "--json", "@json"});
  ASSERT_EQ(bench.finish(), 0) << bench.output();
  const auto json = nlohmann::json::parse(bench.file("json"));
  ASSERT_EQ(json.at("points").size(), 3 * (3 + 3 + 1));
  for (const auto& point : json.at("points")) {
    const auto& ours = point.at("libraries").at("tutti");
    EXPECT_GT(ours.at("us").get<double>(), 0) << point;
    EXPECT_EQ(ours.at("us_per_round").size(), 2) << point;
    EXPECT_FALSE(point.contains("ratio")) << point;
  }
  EXPECT_EQ(json.at("libraries").size(), 3);
}

TEST(BenchCommand, SyncModeMeasuresToo) {
  Bench bench("none", {"--ranks", "2", "--sizes", "8", "--mode", "sync", "--rounds", "1",
                       "--budget", "2", "--json", "@json"});
  ASSERT_EQ(bench.finish(), 0) << bench.output();
  const auto json = nlohmann::json::parse(bench.file("json"));
  EXPECT_GT(json.at("points").at(0).at("libraries").at("tutti").at("p99_us").get<double>(), 0);
}

// The workers' clock is made up: each call takes 50 us, on every rank.
TEST(BenchCommand, ColumnsFollowFromTheTimesOfTheRanks) {
  for (const std::string mode : {"loop", "sync"}) {
    Bench bench("takes 50000", {"--ranks", "4", "--sizes", "4K", "--rounds", "2", "--budget", "1",
                                "--mode", mode, "--json", "@json"});
    ASSERT_EQ(bench.finish(), 0) << bench.output();
    const auto point = nlohmann::json::parse(bench.file("json")).at("points").at(0);
    EXPECT_EQ(point.at("count"), 1024);
    const auto& ours = point.at("libraries").at("tutti");
    for (const char* column : {"avg_us", "min_us", "max_us", "p50_us", "p99_us", "us"}) {
      EXPECT_NEAR(ours.at(column).get<double>(), 50, 1e-3) << mode << " " << column;
    }
    EXPECT_NEAR(ours.at("algbw_gb_s").get<double>(), 4096 / 50e-6 * 1e-9, 1e-6);
    EXPECT_NEAR(ours.at("busbw_gb_s").get<double>(), 1.5 * 4096 / 50e-6 * 1e-9, 1e-6);
  }
}

TEST(BenchCommand, WritesCsvAndAPage) {
  Bench bench("none", {"all_reduce", "barrier", "--ranks", "2,3", "--sizes", "8,4K", "--rounds",
                       "1", "--budget", "1", "--csv", "@csv", "--html", "@html"});
  ASSERT_EQ(bench.finish(), 0) << bench.output();
  std::istringstream csv(bench.file("csv"));
  int lines = 0;
  for (std::string line; std::getline(csv, line);) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), 15) << line;
    ++lines;
  }
  EXPECT_EQ(lines, 1 + 2 * 3);
  EXPECT_NE(bench.file("html").find("<polyline"), std::string::npos);
}

TEST(BenchCommand, RefusesAFileThatItCannotWriteBeforeItMeasures) {
  for (const char* option : {"--json", "--csv", "--html"}) {
    Bench bench("none", {"--ranks", "2", option, "/no/such/folder/file"});
    EXPECT_EQ(bench.finish(), 1);
    EXPECT_EQ(bench.output(), "tutti: cannot write /no/such/folder/file\n");
  }
}

/// All that a command writes to a terminal as its standard error.
std::string on_terminal(const std::vector<std::string>& arguments) {
  int ours = -1;
  int theirs = -1;
  winsize size{24, 66, 0, 0};
  EXPECT_EQ(::openpty(&ours, &theirs, nullptr, nullptr, &size), 0);
  Bench bench("none", arguments, FAKE_LIBRARY_FOLDER, theirs);
  ::close(theirs);
  std::string text;
  char part[4096];
  // The read fails once the command has ended: nobody else has the other side.
  for (ssize_t got = 0; (got = ::read(ours, part, sizeof part)) > 0;) {
    text.append(part, static_cast<std::size_t>(got));
  }
  ::close(ours);
  EXPECT_EQ(bench.finish(), 0) << bench.output();
  EXPECT_EQ(bench.output().find('\r'), std::string::npos);
  return text;
}

TEST(BenchCommand, ShowsHowFarItIsOnATerminalOnly) {
  const std::vector<std::string> arguments{"--ranks",  "2", "--sizes",  "8,4K",
                                           "--rounds", "2", "--budget", "1"};
  const std::string shown = on_terminal(arguments);
  EXPECT_NE(shown.find("[>                       ]   0 %, all_reduce 8, 2 ranks"),
            std::string::npos)
      << shown;
  EXPECT_NE(shown.find("50 %, about "), std::string::npos) << shown;
  EXPECT_NE(shown.find(" left, all_reduce 4K"), std::string::npos) << shown;
  EXPECT_NE(shown.find("[========================] 100 %"), std::string::npos) << shown;
  EXPECT_TRUE(shown.ends_with("\r\x1b[K")) << "the line is gone at the end";
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line, '\r');) EXPECT_LE(line.size(), 65U + 3) << line;
  Bench piped("none", arguments);
  ASSERT_EQ(piped.finish(), 0);
  EXPECT_EQ(piped.output().find("all_reduce 8, 2 ranks"), std::string::npos) << piped.output();
}

TEST(BenchCommand, MissingPeerIsToldAndSkipped) {
  Bench bench("none", {"--ranks", "2", "--sizes", "8", "--rounds", "1", "--budget", "2",
                       "--against", "gloo,impi"});
  EXPECT_EQ(bench.finish(), 0);
  EXPECT_NE(bench.output().find("gloo, 2 ranks: not installed"), std::string::npos)
      << bench.output();
}

/// TUTTI_BACKEND of the workers, as their headings tell.
std::vector<std::string> backends_of(const std::vector<std::string>& more,
                                     const std::string& variable) {
  std::vector<std::string> arguments{"--ranks", "2",        "--sizes", "8",      "--rounds",
                                     "1",       "--budget", "1",       "--json", "@json"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Bench bench("none", arguments, FAKE_LIBRARY_FOLDER, {}, variable);
  EXPECT_EQ(bench.finish(), 0) << bench.output();
  std::vector<std::string> backends;
  const auto json = nlohmann::json::parse(bench.file("json"));
  for (const auto& library : json.at("libraries")) {
    const auto version = library.at("version").get<std::string>();
    backends.push_back(version.substr(version.find('=') + 1));
  }
  return backends;
}

TEST(BenchCommand, OursRunsOnNativeUnlessAnotherBackendIsNamed) {
  using Backends = std::vector<std::string>;
  const std::string none = "TUTTI_BACKEND=";
  const std::string nccl = "cpu:native,cuda:nccl";
  EXPECT_EQ(backends_of({}, none), Backends{"native"});
  EXPECT_EQ(backends_of({"--device", "cuda", "--against", "nccl"}, none),
            (Backends{"native", nccl}));
  EXPECT_EQ(backends_of({"--device", "cuda", "--against", "nccl", "--backend", "auto"}, none),
            (Backends{"auto", nccl}));
  EXPECT_EQ(backends_of({"--device", "cuda"}, "TUTTI_BACKEND=auto"), Backends{"auto"});
  EXPECT_EQ(backends_of({"--device", "cuda", "--backend", "native"}, "TUTTI_BACKEND=auto"),
            Backends{"native"});
}

TEST(BenchCommand, AgainstNoneMeasuresOursOnly) {
  Bench bench("none", {"--rounds", "1", "--budget", "2", "--ranks", "2", "barrier", "--sizes", "8",
                       "broadcast", "--against", "none", "all_reduce"});
  EXPECT_EQ(bench.finish(), 0) << "an operation may follow a list: " << bench.output();
  EXPECT_EQ(bench.output().find("openmpi"), std::string::npos) << bench.output();
  for (const char* operation : {"barrier, ", "broadcast, ", "all_reduce, "}) {
    EXPECT_NE(bench.output().find(operation), std::string::npos) << bench.output();
  }
}

/// A build folder whose worker is the stand-in with a fault of its own.
class OtherBuild {
 public:
  explicit OtherBuild(const std::string& fault)
      : folder_(testing::TempDir() + "tutti_other_build." + std::to_string(::getpid())) {
    fs::create_directories(folder_ / "bin");
    const fs::path worker = folder_ / "bin/tutti_bench_tutti";
    std::ofstream(worker) << "#!/bin/sh\nexec env 'FAKE_LIBRARY=" << fault
                          << "' " FAKE_LIBRARY_FOLDER "/tutti_bench_tutti \"$@\"\n";
    fs::permissions(worker, fs::perms::owner_all);
  }
  OtherBuild(const OtherBuild&) = delete;
  OtherBuild& operator=(const OtherBuild&) = delete;
  ~OtherBuild() { fs::remove_all(folder_); }
  [[nodiscard]] std::string folder() const { return folder_.string(); }

 private:
  fs::path folder_;
};

/// The workers' clock is made up: what is measured does not depend on the machine.
nlohmann::json compare(const std::string& ours, const std::string& theirs) {
  const OtherBuild other(theirs);
  Bench bench(ours, {"all_reduce", "barrier", "--ranks", "2,3", "--sizes", "8", "--against-build",
                     other.folder(), "--pairs", "7", "--budget", "1", "--json", "@json"});
  EXPECT_EQ(bench.finish(), 0) << bench.output();
  auto json = nlohmann::json::parse(bench.file("json"));
  EXPECT_EQ(json.at("cells").size(), 4U) << bench.output();
  return json;
}

TEST(BenchAgainstBuild, FindsTwoPercentInEveryCell) {
  const auto json = compare("takes 51000", "takes 50000");
  for (const auto& cell : json.at("cells")) {
    EXPECT_EQ(cell.at("finding"), "slower") << cell;
    EXPECT_NEAR(cell.at("ratio").get<double>(), 1.02, 1e-6) << cell;
    EXPECT_EQ(cell.at("control"), 1.0) << cell;
  }
  EXPECT_EQ(json.at("overall").at("finding"), "slower");
  EXPECT_EQ(compare("takes 49000", "takes 50000").at("overall").at("finding"), "faster");
}

TEST(BenchAgainstBuild, FindsNothingBetweenEqualBuilds) {
  const auto json = compare("takes 50000", "takes 50000");
  for (const auto& cell : json.at("cells")) EXPECT_EQ(cell.at("finding"), "no difference") << cell;
  EXPECT_EQ(json.at("overall").at("finding"), "no difference");
}

/// (what the other build does, what must be told)
class FaultsOfTheOtherBuild : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(FaultsOfTheOtherBuild, AreToldWithItsName) {
  const auto [fault, text] = GetParam();
  const OtherBuild other(fault);
  Bench bench("none", {"--ranks", "2", "--sizes", "16K", "--against-build", other.folder(),
                       "--budget", "1", "--timeout", "20"});
  EXPECT_EQ(bench.finish(), 1);
  EXPECT_NE(bench.output().find("A (" + other.folder() + "/bin): "), std::string::npos)
      << bench.output();
  EXPECT_NE(bench.output().find(text), std::string::npos) << bench.output();
  EXPECT_EQ(running_workers().size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(BenchAgainstBuild, FaultsOfTheOtherBuild,
                         testing::Values(std::pair("wrong", "rank 1: element 4095 is"),
                                         std::pair("dies", "ended before rank"),
                                         std::pair("newer", "speaks version 100")),
                         [](const auto& one) { return std::string(one.param.first); });

TEST(BenchAgainstBuild, RefusesWhatItCannotCompare) {
  const OtherBuild other("none");
  const fs::path empty = testing::TempDir() + "tutti_no_build." + std::to_string(::getpid());
  fs::create_directory(empty);
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused{
      {{"--against-build", empty.string()}, "no tutti_bench_tutti in"},
      {{"--against-build", other.folder(), "--pairs", "5"}, "--pairs 7 or more"},
      {{"--against-build", other.folder(), "--against", "gloo"}, "excludes"},
      {{"--against-build", other.folder(), "--rounds", "5"}, "excludes"},
      {{"--pairs", "15"}, "requires"}};
  for (const auto& [arguments, text] : refused) {
    Bench bench("none", arguments);
    EXPECT_GT(bench.finish(), 0);
    EXPECT_NE(bench.output().find(text), std::string::npos) << bench.output();
  }
  fs::remove(empty);
}

#ifdef MPI_PROGRAMS
TEST(BenchCommand, MeasuresOursOnAnMpiBesideThatMpi) {
  Bench bench("none",
              {"all_reduce", "barrier", "--backend", "mpi", "--mpi", "openmpi", "--ranks", "2",
               "--sizes", "8,4K", "--rounds", "2", "--budget", "2", "--json", "@json"},
              MPI_PROGRAMS);
  ASSERT_EQ(bench.finish(), 0) << bench.output();
  const auto json = nlohmann::json::parse(bench.file("json"));
  ASSERT_EQ(json.at("points").size(), 3U);
  for (const auto& point : json.at("points")) {
    // Of a library that is hopelessly slow at first, as on a busy machine, one round is measured.
    for (const std::string ours : {"tutti", "unchecked"})
      EXPECT_GE(point.at("libraries").at(ours).at("us_per_round").size(), 1U) << point;
    if (!HAS_OPENMPI_WORKER) continue;
    EXPECT_EQ(point.at("best_peer"), "openmpi");
    EXPECT_GT(point.at("ratio").get<double>(), 0);
    EXPECT_GT(point.at("ratio_unchecked").get<double>(), 0);
  }
  const auto& started = json.at("libraries");
  ASSERT_EQ(started.size(), 3U);
  const auto has = [&](std::size_t at, const char* key, const char* text) {
    EXPECT_NE(started.at(at).at(key).get<std::string>().find(text), std::string::npos) << started;
  };
  has(0, "version", ", mpi");
  has(0, "settings", "TUTTI_AGREE=normal");
  has(1, "version", ", mpi");
  has(1, "settings", "TUTTI_AGREE=off");
  has(0, "settings", "mpiexec.openmpi");
  if (HAS_OPENMPI_WORKER) has(2, "version", "Open MPI");
}
#endif

TEST(BenchCommand, UnknownNamesAreRefused) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"--against", "nccl"},
                                             {"scan"},
                                             {"--sizes", "7"},
                                             {"--sizes", "8x"},
                                             {"--ranks", "0"},
                                             {"--backend", "ucc"},
                                             {"--mpi", "openmpi"},
                                             {"--backend", "mpi", "--mpi", "lam"},
                                             {"--backend", "mpi", "--against", "gloo"},
                                             {"--backend", "mpi", "--without-ours"}}) {
    Bench bench("none", arguments);
    EXPECT_GT(bench.finish(), 0) << bench.output();
  }
}

/// (what the library does, what must be told)
class Faults : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(Faults, AreTold) {
  const auto [fault, text] = GetParam();
  // Only who hangs is waited for until the time is over.
  const std::string timeout = std::string(fault) == "hangs" ? "1" : "20";
  Bench bench(fault, {"all_reduce", "barrier", "--ranks", "3", "--sizes", "8,16K", "--rounds", "1",
                      "--budget", "2", "--timeout", timeout});
  EXPECT_EQ(bench.finish(), 1);
  EXPECT_NE(bench.output().find(text), std::string::npos) << bench.output();
  EXPECT_EQ(running_workers().size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    BenchCommand, Faults,
    testing::Values(std::pair("wrong", "rank 2: element 4095 is"),
                    std::pair("early", "left the barrier before the last had entered it"),
                    std::pair("dies", "ended before rank"),
                    std::pair("hangs", "did not answer for 1 s")),
    [](const auto& one) { return std::string(one.param.first); });

/// A launcher that hands on what its rank writes only when that has ended.
TEST(BenchCommand, TellsWhatARankWroteThatItsLauncherHandsOnLate) {
  const fs::path programs = testing::TempDir() + "tutti_late." + std::to_string(::getpid());
  fs::create_directory(programs);
  fs::create_symlink(FAKE_LIBRARY_FOLDER "/tutti_bench_tutti", programs / "tutti_bench_tutti");
  std::ofstream(programs / "tuttirun")
      << "#!/bin/sh\nshift 2\nsaid=$(RANK=0 WORLD_SIZE=1 \"$@\" 2>&1)\nsleep 0.3\necho \"$said\"\n";
  fs::permissions(programs / "tuttirun", fs::perms::owner_all);
  Bench bench("dies", {"--ranks", "1", "--sizes", "8", "--rounds", "1", "--budget", "2"},
              programs.string());
  EXPECT_EQ(bench.finish(), 1);
  EXPECT_NE(bench.output().find("rank 0 is gone; it printed:\nthe reason of the fake\n"),
            std::string::npos)
      << bench.output();
  fs::remove_all(programs);
}

class Interrupts : public testing::TestWithParam<int> {};

TEST_P(Interrupts, EndEverything) {
  Bench bench("hangs", {"--ranks", "3", "--sizes", "8"});
  std::vector<fs::path> workers;
  for (const auto end = Clock::now() + 20s; workers.size() < 3 && Clock::now() < end;) {
    workers = running_workers();
  }
  ASSERT_EQ(workers.size(), 3U);
  bench.signal(GetParam());
  EXPECT_EQ(bench.finish(), 130) << bench.output();
  EXPECT_EQ(running_workers().size(), 0U);
  EXPECT_FALSE(fs::exists(workers[0])) << workers[0];
}

INSTANTIATE_TEST_SUITE_P(BenchCommand, Interrupts, testing::Values(SIGINT, SIGTERM));

}  // namespace
