#include "apps/tutti/bench_start.hpp"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tutti/tutti.hpp>

#include "apps/bench/spawn.hpp"
#include "apps/bench/statistics.hpp"
#include "base/format.hpp"
#include "os/environment.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct StartOptions {
  std::vector<int> ranks{8, 64, 256};
  int rounds = 3;
  std::string against_build;
  int timeout_s = 120;
};

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Each rank of a job that was started to be measured.
void be_rank() { init_process_group().barrier().wait(); }

/// Starts a job of the programs in that folder. Returns the seconds until its end.
double time_job(const fs::path& programs, int ranks, std::chrono::seconds timeout) {
  const os::Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  os::SpawnOptions spawn;
  spawn.argv = {programs / "tuttirun",
                "--nproc-per-node",
                std::to_string(ranks),
                programs / "tutti",
                "bench",
                "start"};
  spawn.environment = os::entries_of(os::environment());
  spawn.fds = {{null.get(), 0}, {null.get(), 1}};
  spawn.parent_death_signal = SIGTERM;
  const auto begin = Clock::now();
  auto job = os::spawn(spawn);
  if (!job) throw std::runtime_error(std::string(job.status().message()));
  auto ended = job->wait(begin + timeout);
  const std::chrono::duration<double> took = Clock::now() - begin;
  if (!ended || !*ended) (void)job->kill(SIGTERM);
  if (!ended || !*ended || !(**ended).success())
    throw std::runtime_error(base::format("a job of {} ranks of {} {}", ranks, programs.string(),
                                          ended && *ended ? "failed" : "did not end in time"));
  (void)job->collect();
  return took.count();
}

std::string row_of(int ranks, const std::vector<double>& ours, const std::vector<double>& others) {
  std::string row = base::format("{:>6} {:>9.3f} {:>9.3f} {:>9.3f}", ranks, bench::median(ours),
                                 std::ranges::min(ours), std::ranges::max(ours));
  if (!others.empty()) {
    row += base::format(" {:>9.3f} {:>9.2f}", bench::median(others),
                        bench::median(ours) / bench::median(others));
  }
  return row + '\n';
}

void measure(const StartOptions& options) {
  const fs::path ours = fs::read_symlink("/proc/self/exe").parent_path();
  std::vector<fs::path> builds{ours};
  if (!options.against_build.empty())
    builds.push_back(fs::absolute(options.against_build).lexically_normal() / "bin");
  bench::prepare_process();
  say(
      base::format("seconds from the exec of tuttirun to the end of its job, {} rounds\n"
                   "{:>6} {:>9} {:>9} {:>9}{}\n",
                   options.rounds, "ranks", "median", "min", "max",
                   builds.size() > 1 ? "     other     ratio" : ""));
  for (const int ranks : options.ranks) {
    std::vector<std::vector<double>> took(builds.size());
    for (int round = 0; round < options.rounds; ++round) {
      for (std::size_t i = 0; i < builds.size(); ++i) {
        bench::check_interrupt();
        const std::size_t build = round % 2 == 0 ? i : builds.size() - 1 - i;
        took[build].push_back(
            time_job(builds[build], ranks, std::chrono::seconds(options.timeout_s)));
      }
    }
    say(row_of(ranks, took.front(), builds.size() > 1 ? took.back() : std::vector<double>()));
  }
}

}  // namespace

std::function<void(bool)> add_bench_start(CLI::App& bench) {
  auto options = std::make_shared<StartOptions>();
  auto* command = bench.add_subcommand(
      "start",
      "Measures how long a job takes from the exec of tuttirun to its end, with one barrier of all "
      "ranks");
  command->add_option("--ranks", options->ranks, "Numbers of ranks, e.g. 8,64")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds, "How often each is measured")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--against-build", options->against_build,
                      "The folder of another build, whose jobs take turns with ours");
  command->add_option("--timeout", options->timeout_s, "Seconds that a job may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return [options](bool in_job) { in_job ? be_rank() : measure(*options); };
}

}  // namespace tutti::cli
