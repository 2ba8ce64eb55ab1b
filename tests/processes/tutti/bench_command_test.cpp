#include <pty.h>

#include <nlohmann/json.hpp>

#include "command_run.hpp"

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

namespace {

namespace fs = std::filesystem;
using tutti::test::joined;
using tutti::test::lines_of;
using tutti::test::Words;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// `tutti bench` with the stand-in for our library, or other programs.
class Bench : public tutti::test::CommandRun {
 public:
  Bench(const std::string& fault, const Words& arguments,
        const std::string& programs = FAKE_LIBRARY_FOLDER, std::optional<int> errors = {},
        const std::string& variable = "LANG=C")
      : CommandRun(joined({{TUTTI_CLI, "bench", "--programs", programs}, arguments}),
                   {"FAKE_LIBRARY=" + fault, "PATH=/usr/sbin:/usr/bin:/bin", variable}, errors) {}
  /// Its file "@json". It ends well.
  nlohmann::json json() {
    EXPECT_EQ(finish(), 0) << output();
    return nlohmann::json::parse(file("json"));
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
    while (std::getline(file, word, '\0'))
      if (word == "--socket" && std::getline(file, word, '\0'))
        folders.push_back(fs::path(word).parent_path().parent_path());
  }
  return folders;
}

TEST(BenchCommand, MeasuresEveryPointInEveryRound) {
  Bench bench("none", {"all_reduce", "broadcast", "barrier", "--ranks", "1,2,3", "--sizes",
                       "4,4K,200000", "--rounds", "2", "--budget", "2", "--json", "@json"});
  const auto json = bench.json();
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
  const auto json = bench.json();
  EXPECT_GT(json.at("points").at(0).at("libraries").at("tutti").at("p99_us").get<double>(), 0);
}

// The workers' clock is made up: each call takes 50 us, on every rank.
TEST(BenchCommand, ColumnsFollowFromTheTimesOfTheRanks) {
  for (const std::string mode : {"loop", "sync"}) {
    Bench bench("takes 50000", {"--ranks", "4", "--sizes", "4K", "--rounds", "2", "--budget", "1",
                                "--mode", mode, "--json", "@json"});
    const auto point = bench.json().at("points").at(0);
    EXPECT_EQ(point.at("count"), 1024);
    const auto& ours = point.at("libraries").at("tutti");
    for (const char* column : {"avg_us", "min_us", "max_us", "p50_us", "p99_us", "us"})
      EXPECT_NEAR(ours.at(column).get<double>(), 50, 1e-3) << mode << " " << column;
    EXPECT_NEAR(ours.at("algbw_gb_s").get<double>(), 4096 / 50e-6 * 1e-9, 1e-6);
    EXPECT_NEAR(ours.at("busbw_gb_s").get<double>(), 1.5 * 4096 / 50e-6 * 1e-9, 1e-6);
  }
}

TEST(BenchCommand, WritesCsvAndAPage) {
  Bench bench("none", {"all_reduce", "barrier", "--ranks", "2,3", "--sizes", "8,4K", "--rounds",
                       "1", "--budget", "1", "--csv", "@csv", "--html", "@html"});
  ASSERT_EQ(bench.finish(), 0) << bench.output();
  const Words lines = lines_of(bench.file("csv"));
  EXPECT_EQ(lines.size(), 1U + 2 * 3);
  for (const std::string& line : lines) EXPECT_EQ(std::ranges::count(line, ','), 17) << line;
  EXPECT_THAT(bench.file("html"), HasSubstr("<polyline"));
}

TEST(BenchCommand, RefusesAFileThatItCannotWriteBeforeItMeasures) {
  for (const char* option : {"--json", "--csv", "--html"}) {
    Bench bench("none", {"--ranks", "2", option, "/no/such/folder/file"});
    EXPECT_EQ(bench.finish(), 1);
    EXPECT_EQ(bench.output(), "tutti: cannot write /no/such/folder/file\n");
  }
}

/// All that a command writes to a terminal as its standard error.
std::string on_terminal(const Words& arguments) {
  int ours = -1;
  int theirs = -1;
  winsize size{24, 66, 0, 0};
  EXPECT_EQ(::openpty(&ours, &theirs, nullptr, nullptr, &size), 0);
  Bench bench("none", arguments, FAKE_LIBRARY_FOLDER, theirs);
  ::close(theirs);
  std::string text;
  char part[4096];
  // The read fails once the command has ended: nobody else has the other side.
  for (ssize_t got = 0; (got = ::read(ours, part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  ::close(ours);
  EXPECT_EQ(bench.finish(), 0) << bench.output();
  EXPECT_THAT(bench.output(), Not(HasSubstr("\r")));
  return text;
}

TEST(BenchCommand, ShowsHowFarItIsOnATerminalOnly) {
  const Words arguments{"--ranks", "2", "--sizes", "8,4K", "--rounds", "2", "--budget", "1"};
  const std::string shown = on_terminal(arguments);
  EXPECT_THAT(shown, HasSubstr("[>                       ]   0 %, all_reduce 8, 2 ranks"));
  EXPECT_THAT(shown, ContainsRegex("50 %, about .* left, all_reduce 4K"));
  EXPECT_THAT(shown, HasSubstr("[========================] 100 %"));
  EXPECT_TRUE(shown.ends_with("\r\x1b[K")) << "the line is gone at the end";
  std::istringstream lines(shown);
  for (std::string line; std::getline(lines, line, '\r');) EXPECT_LE(line.size(), 65U + 3) << line;
  Bench piped("none", arguments);
  ASSERT_EQ(piped.finish(), 0);
  EXPECT_THAT(piped.output(), Not(HasSubstr("all_reduce 8, 2 ranks")));
}

TEST(BenchCommand, MissingPeerIsToldAndSkipped) {
  Bench bench("none", {"--ranks", "2", "--sizes", "8", "--rounds", "1", "--budget", "2",
                       "--against", "gloo,impi"});
  EXPECT_EQ(bench.finish(), 0);
  EXPECT_THAT(bench.output(), HasSubstr("gloo, 2 ranks: not installed"));
}

/// TUTTI_BACKEND of the workers, as their headings tell.
Words backends_of(const Words& more, const std::string& variable) {
  Bench bench("none",
              joined({{"--ranks", "2", "--sizes", "8", "--rounds", "1"},
                      {"--budget", "1", "--json", "@json"},
                      more}),
              FAKE_LIBRARY_FOLDER, {}, variable);
  Words backends;
  const auto json = bench.json();
  for (const auto& library : json.at("libraries")) {
    const auto version = library.at("version").get<std::string>();
    backends.push_back(version.substr(version.find('=') + 1));
  }
  return backends;
}

TEST(BenchCommand, OursRunsOnNativeUnlessAnotherBackendIsNamed) {
  const std::string none = "TUTTI_BACKEND=";
  const std::string nccl = "cpu:native,cuda:nccl";
  EXPECT_EQ(backends_of({}, none), Words{"native"});
  EXPECT_EQ(backends_of({"--device", "cuda", "--against", "nccl"}, none), (Words{"native", nccl}));
  EXPECT_EQ(backends_of({"--device", "cuda", "--against", "nccl", "--backend", "auto"}, none),
            (Words{"auto", nccl}));
  EXPECT_EQ(backends_of({"--device", "cuda"}, "TUTTI_BACKEND=auto"), Words{"auto"});
  EXPECT_EQ(backends_of({"--device", "cuda", "--backend", "native"}, "TUTTI_BACKEND=auto"),
            Words{"native"});
}

TEST(BenchCommand, AgainstNoneMeasuresOursOnly) {
  Bench bench("none", {"--rounds", "1", "--budget", "2", "--ranks", "2", "barrier", "--sizes", "8",
                       "broadcast", "--against", "none", "all_reduce"});
  EXPECT_EQ(bench.finish(), 0) << "an operation may follow a list: " << bench.output();
  EXPECT_THAT(bench.output(), Not(HasSubstr("openmpi")));
  for (const char* operation : {"barrier, ", "broadcast, ", "all_reduce, "})
    EXPECT_THAT(bench.output(), HasSubstr(operation));
}

/// A build folder whose worker is the stand-in with a fault of its own.
class OtherBuild {
 public:
  explicit OtherBuild(const std::string& fault) {
    fs::create_directory(folder_.at("bin"));
    (void)folder_.file("bin/tutti_bench_tutti",
                       "#!/bin/sh\nexec env 'FAKE_LIBRARY=" + fault +
                           "' " FAKE_LIBRARY_FOLDER "/tutti_bench_tutti \"$@\"\n",
                       true);
  }
  [[nodiscard]] std::string folder() const { return folder_.path(); }

 private:
  const tutti::test::TemporaryFolder folder_;
};

/// The workers' clock is made up: what is measured does not depend on the machine.
nlohmann::json compare(const std::string& ours, const std::string& theirs) {
  const OtherBuild other(theirs);
  Bench bench(ours, {"all_reduce", "barrier", "--ranks", "2,3", "--sizes", "8", "--against-build",
                     other.folder(), "--pairs", "7", "--budget", "1", "--json", "@json"});
  auto json = bench.json();
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

TEST(BenchAgainstBuild, FaultsOfTheOtherAreToldWithItsName) {
  for (const auto& [fault, text] :
       {std::pair("wrong", "rank 1: element 4095 is"), std::pair("dies", "ended before rank"),
        std::pair("newer", "speaks version 100")}) {
    SCOPED_TRACE(fault);
    const OtherBuild other(fault);
    Bench bench("none", {"--ranks", "2", "--sizes", "16K", "--against-build", other.folder(),
                         "--budget", "1", "--timeout", "20"});
    EXPECT_EQ(bench.finish(), 1);
    EXPECT_THAT(bench.output(), HasSubstr("A (" + other.folder() + "/bin): "));
    EXPECT_THAT(bench.output(), HasSubstr(text));
    EXPECT_EQ(running_workers().size(), 0U);
  }
}

TEST(BenchAgainstBuild, RefusesWhatItCannotCompare) {
  const OtherBuild other("none");
  const tutti::test::TemporaryFolder empty;
  const std::vector<std::pair<Words, std::string>> refused{
      {{"--against-build", empty.path()}, "no tutti_bench_tutti in"},
      {{"--against-build", other.folder(), "--pairs", "5"}, "--pairs 7 or more"},
      {{"--against-build", other.folder(), "--against", "gloo"}, "excludes"},
      {{"--against-build", other.folder(), "--rounds", "5"}, "excludes"},
      {{"--pairs", "15"}, "requires"}};
  for (const auto& [arguments, text] : refused) {
    Bench bench("none", arguments);
    EXPECT_GT(bench.finish(), 0);
    EXPECT_THAT(bench.output(), HasSubstr(text));
  }
}

#ifdef HAS_OPENMPI_WORKER
TEST(BenchCommand, MeasuresOursOnAnMpiBesideThatMpi) {
  Bench bench("none",
              {"all_reduce", "barrier", "--backend", "mpi", "--mpi", "openmpi", "--ranks", "2",
               "--sizes", "8,4K", "--rounds", "2", "--budget", "2", "--json", "@json"},
              PROGRAMS);
  const auto json = bench.json();
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
    EXPECT_THAT(started.at(at).at(key).get<std::string>(), HasSubstr(text));
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
  for (const std::string line : {"--against nccl", "scan", "--sizes 7", "--sizes 8x", "--ranks 0",
                                 "--backend ucc", "--mpi openmpi", "--backend mpi --mpi lam",
                                 "--backend mpi --against gloo", "--backend mpi --without-ours"}) {
    std::istringstream words(line);
    Bench bench("none", {std::istream_iterator<std::string>(words), {}});
    EXPECT_GT(bench.finish(), 0) << bench.output();
  }
}

TEST(BenchCommand, FaultsAreTold) {
  for (const auto& [fault, text] :
       {std::pair("wrong", "rank 2: element 4095 is"),
        std::pair("early", "left the barrier before the last had entered it"),
        std::pair("dies", "ended before rank"), std::pair("hangs", "did not answer for 1 s")}) {
    SCOPED_TRACE(fault);
    // Only who hangs is waited for until the time is over.
    const std::string timeout = std::string(fault) == "hangs" ? "1" : "20";
    Bench bench(fault, {"all_reduce", "barrier", "--ranks", "3", "--sizes", "8,16K", "--rounds",
                        "1", "--budget", "2", "--timeout", timeout});
    EXPECT_EQ(bench.finish(), 1);
    EXPECT_THAT(bench.output(), HasSubstr(text));
    EXPECT_EQ(running_workers().size(), 0U);
  }
}

/// A launcher that hands on what its rank writes only when that has ended.
TEST(BenchCommand, TellsWhatARankWroteThatItsLauncherHandsOnLate) {
  const tutti::test::TemporaryFolder programs;
  fs::create_symlink(FAKE_LIBRARY_FOLDER "/tutti_bench_tutti", programs.at("tutti_bench_tutti"));
  (void)programs.file("tuttirun",
                      "#!/bin/sh\nshift 2\nsaid=$(RANK=0 WORLD_SIZE=1 \"$@\" 2>&1)\nsleep 0.3\n"
                      "echo \"$said\"\n",
                      true);
  Bench bench("dies", {"--ranks", "1", "--sizes", "8", "--rounds", "1", "--budget", "2"},
              programs.path());
  EXPECT_EQ(bench.finish(), 1);
  EXPECT_THAT(bench.output(), HasSubstr("rank 0 is gone; it printed:\nthe reason of the fake\n"));
}

/// Interrupts measurements with 3 ranks that hang; nothing may be left of them.
void interrupt(const Words& arguments) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Bench bench("hangs", joined({{"--ranks", "3", "--sizes", "8"}, arguments}));
    std::vector<fs::path> workers;
    for (const auto end = Clock::now() + 20s; workers.size() < 3 && Clock::now() < end;)
      workers = running_workers();
    ASSERT_EQ(workers.size(), 3U);
    bench.signal(signal);
    EXPECT_EQ(bench.finish(), 130) << bench.output();
    EXPECT_EQ(running_workers().size(), 0U);
    EXPECT_FALSE(fs::exists(workers[0])) << workers[0];
  }
}

/// Network namespaces of runs that have ended.
std::vector<std::string> left_namespaces() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/run/netns", none)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    if (std::sscanf(name.c_str(), "tutti-bench-%d-", &pid) == 1 && ::kill(pid, 0) != 0)
      names.push_back(name);
  }
  return names;
}

TEST(BenchCommand, MeasuresBetweenHostsThatItMakes) {
  Bench bench("none",
              {"--hosts", "2", "--ranks", "4", "--sizes", "8", "--rounds", "1", "--budget", "2"});
  if (bench.finish() != 0) {
    EXPECT_THAT(bench.output(), HasSubstr("makes network namespaces, which needs root"));
    return;
  }
  EXPECT_THAT(bench.output(), HasSubstr("2 hosts joined by veth"));
  EXPECT_EQ(left_namespaces(), std::vector<std::string>());
  Bench slow("none",
             {"send_recv", "--hosts", "2", "--network", "1Gbit,1ms", "--sizes", "8,1M", "--rounds",
              "1", "--budget", "2", "--json", "@json"},
             PROGRAMS);
  // No message is faster than its links: there and back.
  const auto points = slow.json().at("points");
  for (const auto& [place, least] : {std::pair(0, 2000), {1, 2000 + 2 * 8389}})
    EXPECT_GE(points.at(place).at("libraries").at("tutti").at("us").get<double>(), least);
  EXPECT_EQ(left_namespaces(), std::vector<std::string>());
  interrupt({"--hosts", "3"});
  EXPECT_EQ(left_namespaces(), std::vector<std::string>());
}

TEST(BenchCommand, InterruptsEndEverything) { interrupt({}); }

}  // namespace
