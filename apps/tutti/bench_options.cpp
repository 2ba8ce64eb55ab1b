#include "apps/tutti/bench_options.hpp"

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "apps/bench/library.hpp"
#include "apps/bench/sizes.hpp"
#include "apps/bench/spawn.hpp"
#include "base/format.hpp"
#include "rendezvous/environment.hpp"

namespace tutti::cli {

namespace {

namespace fs = std::filesystem;

/// `--against none`: for scripts that ask for peers unless told otherwise.
constexpr const char* kNone = "none";

fs::path own_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto operation : bench::all_operations()) {
    names.emplace_back(bench::name_of(operation));
  }
  return names;
}

/// The first MPI that ours can run on here.
std::string installed_mpi(const fs::path& programs) {
  std::string all;
  for (const auto& name : bench::known_mpis()) {
    std::string why;
    if (bench::installed(bench::kOurs, programs, why, name)) return name;
    all += base::format("; {}: {}", name, why);
  }
  throw std::invalid_argument("the backend mpi cannot be measured" + all);
}

}  // namespace

bench::Settings BenchOptions::measured_settings() const {
  bench::Settings settings;
  for (const auto& name : operations) {
    settings.operations.push_back(bench::operation_of(name));
  }
  if (range_given) {
    settings.sizes = bench::size_range(bench::parse_size(begin), bench::parse_size(end), factor);
  } else {
    for (const auto& text : sizes) settings.sizes.push_back(bench::parse_size(text));
  }
  for (const auto size : settings.sizes) {
    if (size == 0 || size % sizeof(float) != 0) {
      throw std::invalid_argument(
          base::format("a size of {} bytes is no whole number of float32", size));
    }
  }
  settings.rounds = rounds;
  settings.budget = std::chrono::milliseconds(budget_ms);
  settings.mode = mode == "sync" ? bench::Mode::sync : bench::Mode::loop;
  settings.timeout = std::chrono::seconds(timeout_s);
  settings.gpu = device == "cuda";
  // Not `auto` unless it is named: where each rank has a GPU of its own, its calls on GPUs run on
  // NCCL, and `--against nccl` would compare NCCL with itself.
  settings.backend = backend;
  if (backend.empty() && !rendezvous::Environment(nullptr).filled("TUTTI_BACKEND"))
    settings.backend = "native";
  return settings;
}

bench::Settings BenchOptions::settings() const {
  bench::Settings settings = measured_settings();
  settings.ranks = ranks;
  settings.hosts = hosts;
  if (!network.empty()) settings.links = bench::parse_link_shape(network);
  if (!hogs.empty()) {
    const std::size_t comma = hogs.find(',');
    settings.hogs = std::stoi(hogs);
    settings.hogs_bound = comma != std::string::npos;
  }
  for (const int all : ranks) {
    if (all % hosts == 0) continue;
    throw std::invalid_argument(
        base::format("{} ranks cannot be divided evenly over {} hosts: --ranks", all, hosts));
  }
  settings.programs = programs.empty() ? own_folder() : fs::absolute(programs);
  if (backend == "mpi") {
    if (hosts > 1) throw std::invalid_argument("--hosts does not go with --backend mpi");
    if (settings.gpu) throw std::invalid_argument("the backend mpi takes no tensors of GPUs");
    if (!against.empty() || without_ours) {
      throw std::invalid_argument(
          "--backend mpi measures ours beside the MPI below it: leave --against and --without-ours "
          "out; --mpi chooses the MPI");
    }
    settings.mpi = mpi.empty() ? installed_mpi(settings.programs) : mpi;
    settings.libraries = {bench::kOurs, bench::kOursUnchecked, settings.mpi};
    settings.backend.clear();
    return settings;
  }
  if (!mpi.empty()) throw std::invalid_argument("--mpi needs --backend mpi");
  if (!without_ours) settings.libraries.emplace_back(bench::kOurs);
  const auto known = bench::known_libraries();
  for (const auto& name : against) {
    if (name == kNone) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw std::invalid_argument(
          base::format("no such library: {}; there are {}, and {} for no other", name,
                       fmt::join(known, ", "), kNone));
    }
    if (settings.gpu != (name == bench::kOursOnNccl) && name != bench::kOurs) {
      throw std::invalid_argument(
          settings.gpu ? base::format("{} takes no tensors of GPUs here: --against nccl", name)
                       : "nccl takes tensors of GPUs: --device cuda --against nccl");
    }
    auto& list = settings.libraries;
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  }
  return settings;
}

void BenchOptions::add_to(CLI::App& command) {
  command
      .add_option("operations", operations,
                  base::format("{} (default: all_reduce)", fmt::join(operation_names(), ", ")))
      ->check(CLI::IsMember(operation_names()));
  command.add_option("--ranks", ranks, "Numbers of processes, e.g. 2,8")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      .add_option(
          "--hosts", hosts,
          "Divides the ranks evenly over so many hosts: network namespaces on this machine, "
          "made for this run; needs root. Then the default of --ranks is a rank per host")
      ->check(CLI::Range(2, 64));
  command
      .add_option("--network", network,
                  "With --hosts: rate and delay one way of the links between them, e.g. 1Gbit,1ms "
                  "(default: as fast as this machine)")
      ->type_name("RATE,DELAY")
      ->needs("--hosts");
  command
      .add_option("--hog", hogs,
                  "Runs so many processes beside the ranks that use a core each; with ,bound each "
                  "is bound to a CPU: 1 or 2,bound")
      ->type_name("N[,bound]")
      ->check([](const std::string& text) {
        const std::size_t digits = text.find_first_not_of("0123456789");
        const std::string rest = digits == std::string::npos ? "" : text.substr(digits);
        const bool counts = text[0] >= '1' && text[0] <= '9' && text.size() - rest.size() < 4;
        return counts && (rest.empty() || rest == ",bound")
                   ? std::string()
                   : "'" + text + "' is not understood; examples: 1 and 2,bound";
      });
  command.add_option("--sizes", sizes, "Message sizes, e.g. 8,4K,16M")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command.add_option("-b,--begin", begin, "Smallest size of a range")
      ->capture_default_str()
      ->excludes("--sizes");
  command.add_option("-e,--end", end, "Largest size of a range")
      ->capture_default_str()
      ->excludes("--sizes");
  command.add_option("-f,--factor", factor, "From one size to the next")
      ->capture_default_str()
      ->excludes("--sizes");
  command
      .add_option("--against", against,
                  "Other libraries, measured in turns with ours: openmpi, mpich, impi, gloo; "
                  "with --device cuda nccl; none: ours only")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_flag("--without-ours", without_ours, "Measures the others only");
  command
      .add_option("--backend", backend,
                  "Our backend (default: TUTTI_BACKEND, else native). auto: collectives on GPUs go "
                  "to NCCL where each rank has a GPU of its own. mpi: ours on an MPI, also with "
                  "TUTTI_AGREE=off (column unchecked), in turns with that MPI called directly")
      ->check(CLI::IsMember({"native", "auto", "mpi"}));
  command
      .add_option("--mpi", mpi,
                  "With --backend mpi: which MPI; the default is the first that is installed")
      ->check(CLI::IsMember(bench::known_mpis()))
      ->needs("--backend");
  command
      .add_option("--device", device,
                  "Where the tensors are. cuda: each rank's on the GPU of its number on the host, "
                  "in turn; no call finds them in the GPU's cache, if that is smaller than "
                  "128 MiB")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--rounds", rounds, "Turns of every library per point")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--against-build", against_build,
                  "Compares this build (B) with the one in build folder DIR (A), which is "
                  "measured twice (A and A'). Says which cells differ by more than noise: B "
                  "is the slowest, or the fastest, of the three in nearly all pairs, and the "
                  "median of B/A is farther from 1 than three quarters of the A'/A and than 1 %")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory)
      ->excludes("--against")
      ->excludes("--hog")
      ->excludes("--without-ours")
      ->excludes("--rounds");
  command
      .add_option("--pairs", pairs,
                  "With --against-build: how often A, B and A' are started and measured; 15 to "
                  "measure a finding again")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->needs("--against-build");
  command
      .add_option("--budget", budget_ms,
                  "Milliseconds per library, point and round, or per build, point and pair")
      ->check(CLI::Range(1, 60'000))
      ->capture_default_str();
  command
      .add_option("--mode", mode,
                  "loop: calls back to back; sync: a barrier before each call, slowest rank")
      ->check(CLI::IsMember({"loop", "sync"}))
      ->capture_default_str();
  command.add_option("--json", json, "Writes every figure to this file");
  command.add_option("--csv", csv, "Writes a line per point and library to this file")
      ->excludes("--against-build");
  command
      .add_option("--html", html,
                  "Writes a page with plots and tables to this file; it needs no other file")
      ->excludes("--against-build");
  command
      .add_option("--timeout", timeout_s,
                  "Seconds for a library to start, and to answer beyond what its calls should take")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command
      .add_option("--programs", programs,
                  "Folder of the programs tutti_bench_<library> (default: that of this program)")
      ->check(CLI::ExistingDirectory);
}

}  // namespace tutti::cli
