#include "apps/tutti/bench_command.hpp"

#include <unistd.h>

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

#include "apps/bench/build_comparison.hpp"
#include "apps/bench/build_report.hpp"
#include "apps/bench/csv_report.hpp"
#include "apps/bench/html_report.hpp"
#include "apps/bench/joined_job.hpp"
#include "apps/bench/measure.hpp"
#include "apps/bench/report.hpp"
#include "apps/bench/sizes.hpp"
#include "apps/bench/spawn.hpp"
#include "apps/tutti/bench_options.hpp"
#include "apps/tutti/bench_start.hpp"
#include "apps/tutti/progress_bar.hpp"
#include "base/format.hpp"
#include "rendezvous/environment.hpp"

namespace tutti::cli {

namespace {

namespace fs = std::filesystem;

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
void compare(const BenchOptions& options) {
  bench::BuildSettings settings;
  settings.common = options.settings();
  settings.reference = fs::absolute(options.against_build).lexically_normal() / "bin";
  settings.pairs = options.pairs;
  for (const auto& programs : {settings.reference, settings.common.programs}) {
    std::string why;
    if (!bench::installed(bench::kOurs, programs, why)) {
      throw std::invalid_argument(base::format(
          "no tutti_bench_tutti in {}: build the targets tutti_bench_tutti and tuttirun there",
          programs.string()));
    }
  }
  const int fewest = bench::fewest_pairs(bench::point_count(settings.common) + 1);
  if (options.pairs < fewest) {
    throw std::invalid_argument(
        base::format("{} pairs prove nothing about {} cells: take --pairs {} or more",
                     options.pairs, bench::point_count(settings.common), fewest));
  }
  bench::prepare_process();
  print(bench::describe(settings) + "\npairs:");
  const auto comparison =
      bench::compare_builds(settings, [](int pair) { print(base::format(" {}", pair)); });
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
             base::format("{} {}, {} ranks", bench::name_of(point.operation),
                          bench::size_text(point.bytes), point.ranks));
  };
  print(
      base::format("Microseconds per call of float32 and GB/s; {}. ratio: ours / best peer,\n"
                   "round by round; only it holds beyond this run.\n\n",
                   bench::describe(settings)));
  const bench::Results results =
      open ? bench::run(settings, open, observer) : bench::run(settings, observer);
  write_json(options.json, bench::to_json(settings, results));
  write_file(options.csv, bench::to_csv(results));
  write_file(options.html, bench::to_html(settings, results));
  const auto any = [&](auto holds) {
    return std::ranges::any_of(results.points, [&](const auto& point) {
      return std::ranges::any_of(point.series, holds);
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
  for (const char* name : {"--ranks", "--hosts", "--hog", "--against", "--without-ours", "--mpi",
                           "--against-build", "--programs"}) {
    if (command.get_option(name)->count() == 0) continue;
    throw std::invalid_argument(base::format(
        "{} cannot be used here: the environment says that this process is rank {} of a job of {}, "
        "so these ranks are measured and none is started; take the variables away (env -u RANK -u "
        "WORLD_SIZE ...) to start others",
        name, *place.rank, *place.size));
  }
}

/// Measures the job that this process is a rank of. Rank 0 prints and writes.
void run_in_job(const BenchOptions& options) {
  bench::Settings settings = options.measured_settings();
  settings.libraries = {bench::kOurs};
  InitOptions init;
  init.timeout = settings.timeout;
  if (!settings.backend.empty()) init.backend = settings.backend;
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
  options->add_to(*command);
  const auto start = add_bench_start(*command);
  command->callback([=] {
    if (command->got_subcommand("start")) return start(place_in_job().has_value());
    options->range_given =
        command->count("--begin") + command->count("--end") + command->count("--factor") > 0;
    if (options->hosts > 1 && command->count("--ranks") == 0) options->ranks = {options->hosts};
    for (const auto* path : {&options->json, &options->csv, &options->html}) check_writable(*path);
    if (const auto place = place_in_job()) {
      refuse_in_job(*command, *place);
      run_in_job(*options);
    } else if (options->against_build.empty()) {
      const bench::Settings settings = options->settings();
      bench::prepare_process();
      measure(*options, settings, {});
    } else {
      compare(*options);
    }
  });
}

}  // namespace tutti::cli
