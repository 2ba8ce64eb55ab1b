#include "apps/tutti/bench_command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tutti/error.hpp>
#include <tutti/init.hpp>
#include <utility>
#include <vector>

#include "apps/bench/build_comparison.hpp"
#include "apps/bench/build_report.hpp"
#include "apps/bench/csv_report.hpp"
#include "apps/bench/html_report.hpp"
#include "apps/bench/joined_job.hpp"
#include "apps/bench/library.hpp"
#include "apps/bench/measure.hpp"
#include "apps/bench/report.hpp"
#include "apps/bench/sizes.hpp"
#include "apps/bench/spawn.hpp"
#include "apps/tutti/progress_bar.hpp"
#include "rendezvous/environment.hpp"

namespace tutti::cli {

namespace {

namespace fs = std::filesystem;

/// `--against none`: for scripts that ask for peers unless told otherwise.
constexpr const char* kNone = "none";

/// The options of the command line.
struct BenchOptions {
  std::vector<std::string> operations{"all_reduce"};
  std::vector<int> ranks{2, 8};
  std::string begin = "8";
  std::string end = "64M";
  std::uint64_t factor = 8;
  std::vector<std::string> sizes{"8", "4K", "256K", "16M"};
  std::vector<std::string> against;
  bool without_ours = false;
  std::string backend;  // empty: not given
  std::string mpi;
  std::string device = "cpu";
  std::string against_build;
  int pairs = 11;
  int rounds = 5;
  int budget_ms = 60;
  std::string mode = "loop";
  std::string json;
  std::string csv;
  std::string html;
  int timeout_s = 30;
  std::string programs;
};

fs::path own_folder() { return fs::read_symlink("/proc/self/exe").parent_path(); }

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto operation : bench::all_operations()) {
    names.emplace_back(bench::name_of(operation));
  }
  return names;
}

/// TUTTI_BACKEND of ours; empty: that of the environment. Not `auto` unless it is named: where each
/// rank has a GPU of its own, its calls on GPUs run on NCCL, and `--against nccl` would compare
/// NCCL with itself.
std::string backend_of(const BenchOptions& options) {
  if (!options.backend.empty()) return options.backend;
  return rendezvous::Environment(nullptr).filled("TUTTI_BACKEND") ? "" : "native";
}

/// The first MPI that ours can run on here.
std::string installed_mpi(const fs::path& programs) {
  std::string all;
  for (const auto& name : bench::known_mpis()) {
    std::string why;
    if (bench::installed(bench::kOurs, programs, why, name)) return name;
    all += fmt::format("; {}: {}", name, why);
  }
  throw std::invalid_argument("the backend mpi cannot be measured" + all);
}

/// The operations, sizes and rounds that are measured; not by whom.
bench::Settings measured_settings(const BenchOptions& options, bool range_given) {
  bench::Settings settings;
  for (const auto& name : options.operations) {
    settings.operations.push_back(bench::operation_of(name));
  }
  if (range_given) {
    settings.sizes = bench::size_range(bench::parse_size(options.begin),
                                       bench::parse_size(options.end), options.factor);
  } else {
    for (const auto& text : options.sizes) settings.sizes.push_back(bench::parse_size(text));
  }
  for (const auto size : settings.sizes) {
    if (size == 0 || size % sizeof(float) != 0) {
      throw std::invalid_argument(
          fmt::format("a size of {} bytes is no whole number of float32", size));
    }
  }
  settings.rounds = options.rounds;
  settings.budget = std::chrono::milliseconds(options.budget_ms);
  settings.mode = options.mode == "sync" ? bench::Mode::sync : bench::Mode::loop;
  settings.timeout = std::chrono::seconds(options.timeout_s);
  settings.gpu = options.device == "cuda";
  return settings;
}

/// With the libraries and numbers of ranks that are started here.
bench::Settings settings_of(const BenchOptions& options, bool range_given) {
  bench::Settings settings = measured_settings(options, range_given);
  settings.ranks = options.ranks;
  settings.programs = options.programs.empty() ? own_folder() : fs::absolute(options.programs);
  if (options.backend == "mpi") {
    if (settings.gpu) throw std::invalid_argument("the backend mpi takes no tensors of GPUs");
    if (!options.against.empty() || options.without_ours) {
      throw std::invalid_argument(
          "--backend mpi measures ours beside the MPI below it: leave --against and --without-ours "
          "out; --mpi chooses the MPI");
    }
    settings.mpi = options.mpi.empty() ? installed_mpi(settings.programs) : options.mpi;
    settings.libraries = {bench::kOurs, bench::kOursUnchecked, settings.mpi};
    return settings;
  }
  settings.backend = backend_of(options);
  if (!options.mpi.empty()) throw std::invalid_argument("--mpi needs --backend mpi");
  if (!options.without_ours) settings.libraries.emplace_back(bench::kOurs);
  const auto known = bench::known_libraries();
  for (const auto& name : options.against) {
    if (name == kNone) continue;
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw std::invalid_argument(
          fmt::format("no such library: {}; there are {}, and {} for no other", name,
                      fmt::join(known, ", "), kNone));
    }
    if (settings.gpu != (name == bench::kOursOnNccl) && name != bench::kOurs) {
      throw std::invalid_argument(
          settings.gpu ? fmt::format("{} takes no tensors of GPUs here: --against nccl", name)
                       : "nccl takes tensors of GPUs: --device cuda --against nccl");
    }
    auto& list = settings.libraries;
    if (std::find(list.begin(), list.end(), name) == list.end()) list.push_back(name);
  }
  return settings;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

/// Refuses a file that cannot be written, before anything is measured.
void check_writable(const std::string& path) {
  if (path.empty()) return;
  const fs::path folder = fs::absolute(path).parent_path();
  std::error_code error;  // what cannot be looked at cannot be written
  const bool exists = fs::exists(path, error);
  if (error || fs::is_directory(path, error) ||
      ::access(exists ? path.c_str() : folder.c_str(), exists ? W_OK : W_OK | X_OK) != 0) {
    throw std::invalid_argument("cannot write " + path);
  }
}

void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
}

void write_json(const std::string& path, const nlohmann::json& json) {
  write_file(path, json.dump(2) + '\n');
}

/// `--against-build`: this build and another one in turns.
void compare(const BenchOptions& options, bool range_given) {
  bench::BuildSettings settings;
  settings.common = settings_of(options, range_given);
  settings.reference = fs::absolute(options.against_build).lexically_normal() / "bin";
  settings.pairs = options.pairs;
  for (const auto& programs : {settings.reference, settings.common.programs}) {
    std::string why;
    if (!bench::installed(bench::kOurs, programs, why)) {
      throw std::invalid_argument(fmt::format(
          "no tutti_bench_tutti in {}: build the targets tutti_bench_tutti and tuttirun there",
          programs.string()));
    }
  }
  const int fewest = bench::fewest_pairs(bench::point_count(settings.common) + 1);
  if (options.pairs < fewest) {
    throw std::invalid_argument(
        fmt::format("{} pairs prove nothing about {} cells: take --pairs {} or more", options.pairs,
                    bench::point_count(settings.common), fewest));
  }
  bench::prepare_process();
  print(bench::describe(settings) + "\npairs:");
  const auto comparison =
      bench::compare_builds(settings, [](int pair) { print(fmt::format(" {}", pair)); });
  print("\n\n" + bench::describe(settings, comparison));
  write_json(options.json, bench::to_json(settings, comparison));
}

/// Measures, prints the table as it grows and writes the files. Throws if ours failed.
void measure(const BenchOptions& options, const bench::Settings& settings,
             const bench::OpenJob& open) {
  ProgressBar bar;
  std::optional<std::pair<bench::Operation, int>> headed;
  bench::Observer observer;
  observer.on_started = [&](const bench::Started& started) {
    headed.reset();
    bar.clear();
    print(bench::describe(started));
  };
  observer.on_point = [&](const bench::Point& point) {
    const std::pair now(point.operation, point.ranks);
    bar.clear();
    if (headed != now) print("\n" + bench::table_head(point));
    headed = now;
    print(bench::table_rows(point));
  };
  observer.on_round = [&](const bench::Point& point, int done, int all) {
    bar.show(done, all,
             fmt::format("{} {}, {} ranks", bench::name_of(point.operation),
                         bench::size_text(point.bytes), point.ranks));
  };
  print(
      fmt::format("Microseconds per call of float32 and GB/s; mode {}, {} rounds in turns. "
                  "ratio: ours / best peer,\nround by round; only it holds beyond this run.\n\n",
                  options.mode, settings.rounds));
  const bench::Results results =
      open ? bench::run(settings, open, observer) : bench::run(settings, observer);
  write_json(options.json, bench::to_json(settings, results));
  write_file(options.csv, bench::to_csv(results));
  write_file(options.html, bench::to_html(settings, results));
  const auto any = [&](auto holds) {
    return std::any_of(results.points.begin(), results.points.end(), [&](const auto& point) {
      return std::any_of(point.series.begin(), point.series.end(), holds);
    });
  };
  if (!any([](const auto& series) { return !series.seconds.empty(); })) {
    throw std::runtime_error("nothing was measured");
  }
  if (any([](const auto& series) {
        return bench::is_ours(series.name) && !series.failure.empty();
      })) {
    throw std::runtime_error("our own library failed: see above");
  }
}

/// Starts what it measures.
void run_bench(const BenchOptions& options, bool range_given) {
  const bench::Settings settings = settings_of(options, range_given);
  bench::prepare_process();
  measure(options, settings, {});
}

/// The place of this process in a job, if the environment tells of one.
std::optional<rendezvous::Place> place_in_job() {
  rendezvous::Place place;
  if (const Outcome s = rendezvous::complete(place, rendezvous::Environment(nullptr)); !s) {
    throw Error(s);
  }
  if (!place.rank || !place.size) return std::nullopt;
  return place;
}

/// Refuses options that are about processes to be started.
void refuse_in_job(const CLI::App& command, const rendezvous::Place& place) {
  for (const char* name :
       {"--ranks", "--against", "--without-ours", "--mpi", "--against-build", "--programs"}) {
    if (command.get_option(name)->count() == 0) continue;
    throw std::invalid_argument(fmt::format(
        "{} cannot be used here: the environment says that this process is rank {} of a job of {}, "
        "so these ranks are measured and none is started; take the variables away (env -u RANK -u "
        "WORLD_SIZE ...) to start others",
        name, *place.rank, *place.size));
  }
}

/// Measures the job that this process is a rank of. Rank 0 prints and writes.
void run_in_job(const BenchOptions& options, bool range_given) {
  bench::Settings settings = measured_settings(options, range_given);
  settings.libraries = {bench::kOurs};
  InitOptions init;
  init.timeout = settings.timeout;
  if (const auto backend = backend_of(options); !backend.empty()) init.backend = backend;
  auto job = std::make_unique<bench::JoinedJob>(init_process_group(init),
                                                settings.gpu ? DeviceType::cuda : DeviceType::cpu);
  if (job->rank() != 0) return job->follow();
  settings.ranks = {job->size()};
  measure(options, settings, [&](const std::string&, int) { return std::move(job); });
}

}  // namespace

void add_bench_command(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  auto* command = app.add_subcommand(
      "bench",
      "Measures collectives, beside other libraries in the same run if asked. In a job (mpirun, "
      "srun, tuttirun on several hosts) all ranks call it: it measures that job, and rank 0 "
      "prints");
  command
      ->add_option("operations", options->operations,
                   fmt::format("{} (default: all_reduce)", fmt::join(operation_names(), ", ")))
      ->check(CLI::IsMember(operation_names()));
  command->add_option("--ranks", options->ranks, "Numbers of processes, e.g. 2,8")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  auto* sizes = command->add_option("--sizes", options->sizes, "Message sizes, e.g. 8,4K,16M")
                    ->delimiter(',')
                    ->allow_extra_args(false)
                    ->capture_default_str();
  auto* begin = command->add_option("-b,--begin", options->begin, "Smallest size of a range")
                    ->capture_default_str()
                    ->excludes(sizes);
  auto* end = command->add_option("-e,--end", options->end, "Largest size of a range")
                  ->capture_default_str()
                  ->excludes(sizes);
  auto* factor = command->add_option("-f,--factor", options->factor, "From one size to the next")
                     ->capture_default_str()
                     ->excludes(sizes);
  auto* against =
      command
          ->add_option("--against", options->against,
                       "Other libraries, measured in turns with ours: openmpi, mpich, impi, gloo; "
                       "with --device cuda nccl; none: ours only")
          ->delimiter(',')
          ->allow_extra_args(false);
  auto* without_ours =
      command->add_flag("--without-ours", options->without_ours, "Measures the others only");
  auto* backend =
      command
          ->add_option(
              "--backend", options->backend,
              "Our backend (default: TUTTI_BACKEND, else native). auto: collectives on GPUs go "
              "to NCCL where each rank has a GPU of its own. mpi: ours on an MPI, also with "
              "TUTTI_AGREE=off (column unchecked), in turns with that MPI called directly")
          ->check(CLI::IsMember({"native", "auto", "mpi"}));
  command
      ->add_option("--mpi", options->mpi,
                   "With --backend mpi: which MPI; the default is the first that is installed")
      ->check(CLI::IsMember(bench::known_mpis()))
      ->needs(backend);
  command
      ->add_option("--device", options->device,
                   "Where the tensors are. cuda: each rank's on the GPU of its number on the host, "
                   "in turn; no call finds them in the GPU's cache, if that is smaller than "
                   "128 MiB")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  auto* rounds =
      command->add_option("--rounds", options->rounds, "Turns of every library per point")
          ->check(CLI::Range(1, 1000))
          ->capture_default_str();
  auto* against_build =
      command
          ->add_option(
              "--against-build", options->against_build,
              "Compares this build (B) with the one in build folder DIR (A), which is "
              "measured twice (A and A'). Says which cells differ by more than noise: B "
              "is the slowest, or the fastest, of the three in nearly all pairs, and the "
              "median of B/A is farther from 1 than three quarters of the A'/A and than 1 %")
          ->type_name("DIR")
          ->check(CLI::ExistingDirectory)
          ->excludes(against)
          ->excludes(without_ours)
          ->excludes(rounds);
  command
      ->add_option("--pairs", options->pairs,
                   "With --against-build: how often A, B and A' are started and measured; 15 to "
                   "measure a finding again")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->needs(against_build);
  command
      ->add_option("--budget", options->budget_ms,
                   "Milliseconds per library, point and round, or per build, point and pair")
      ->check(CLI::Range(1, 60'000))
      ->capture_default_str();
  command
      ->add_option("--mode", options->mode,
                   "loop: calls back to back; sync: a barrier before each call, slowest rank")
      ->check(CLI::IsMember({"loop", "sync"}))
      ->capture_default_str();
  command->add_option("--json", options->json, "Writes every figure to this file");
  command->add_option("--csv", options->csv, "Writes a line per point and library to this file")
      ->excludes(against_build);
  command
      ->add_option("--html", options->html,
                   "Writes a page with plots and tables to this file; it needs no other file")
      ->excludes(against_build);
  command
      ->add_option(
          "--timeout", options->timeout_s,
          "Seconds for a library to start, and to answer beyond what its calls should take")
      ->check(CLI::Range(1, 3600))
      ->capture_default_str();
  command
      ->add_option("--programs", options->programs,
                   "Folder of the programs tutti_bench_<library> (default: that of this program)")
      ->check(CLI::ExistingDirectory);
  command->callback([=] {
    const bool range_given = begin->count() + end->count() + factor->count() > 0;
    for (const auto* path : {&options->json, &options->csv, &options->html}) check_writable(*path);
    if (const auto place = place_in_job()) {
      refuse_in_job(*command, *place);
      run_in_job(*options, range_given);
    } else if (options->against_build.empty()) {
      run_bench(*options, range_given);
    } else {
      compare(*options, range_given);
    }
  });
}

}  // namespace tutti::cli
