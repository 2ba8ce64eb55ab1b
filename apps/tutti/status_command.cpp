#include "apps/tutti/status_command.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tutti/backend/kinds.hpp>

#include "apps/tutti/live_jobs.hpp"
#include "apps/tutti/wrapped_line.hpp"
#include "base/format.hpp"
#include "base/number.hpp"
#include "base/shown.hpp"
#include "record/record.hpp"
#include "record/waits.hpp"

namespace tutti::cli {
namespace {

/// Between two looks, from which rates follow.
constexpr auto kBetween = std::chrono::milliseconds(500);

std::string group_name(const record::Record& record, const record::Operation& operation) {
  return operation.group < 0 ? std::string("?")
                             : record.groups[static_cast<std::size_t>(operation.group)].name;
}

/// Of the terminal that standard output is; 0: it is none.
std::size_t columns_of_output() {
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// The call that a rank is in now.
std::string doing(const record::Record& record) {
  const auto seconds_since = [&](std::int64_t then) {
    return static_cast<double>(std::max<std::int64_t>(record.read - then, 0)) / 1e9;
  };
  if (record.starting) {
    return base::format("{} for {:.1f} s{}{}",
                        record.rank == record::kLauncher ? "begins the job" : "in init",
                        seconds_since(record.made), record.waits_for.empty() ? "" : ", waits for ",
                        record.waits_for);
  }
  // The first one that is open holds the others up.
  const auto open = std::ranges::find_if(record.operations, &record::Operation::is_open);
  if (open == record.operations.end()) return "in no call";
  std::string text =
      base::format("{} in group '{}'", traits_of(open->kind).name, group_name(record, *open));
  if (is_collective(open->kind)) text += base::format(", operation {}", open->seq);
  text += base::format(", for {:.1f} s", seconds_since(open->called));
  if (open->waits_for >= 0) text += base::format(", waits for rank {}", open->waits_for);
  return text;
}

/// The work of a rank between two looks.
struct Row {
  double per_second = 0;
  std::size_t record = 0;  ///< index
};

void print_status(const std::vector<LiveRecorder>& recorders) {
  std::vector<Result<record::Record>> before;
  for (const LiveRecorder& recorder : recorders) before.push_back(recorder.read());
  std::this_thread::sleep_for(kBetween);
  std::multimap<std::pair<int, int>, Row> rows;  // by rank and process
  std::vector<record::Record> records;
  std::size_t widest = std::string_view("host").size();
  for (std::size_t i = 0; i < recorders.size(); ++i) {
    auto now = recorders[i].read();
    if (!now || !before[i]) continue;
    const double seconds = static_cast<double>(now->read - before[i]->read) / 1e9;
    const double calls = static_cast<double>(now->written - before[i]->written);
    widest = std::max(widest, now->host.size());
    const std::pair place(now->rank, now->pid);
    rows.emplace(place, Row{seconds > 0 ? calls / seconds : 0, records.size()});
    records.push_back(std::move(*now));
  }
  const std::vector<std::int64_t> waited = record::waited_for(records);
  const std::size_t columns = columns_of_output();
  fmt::print("{}", wrapped_line(
                       base::format("{:>6} {:>9} {:<{}} {:>10} {:>10} {:>10}  ", "rank", "process",
                                    "host", widest, "operations", "per second", "waited for"),
                       "now", columns));
  for (const auto& [place, row] : rows) {
    const record::Record& record = records[row.record];
    const std::string head =
        base::format("{:>6} {:>9} {:<{}} {:>10} {:>10.0f} {:>10}  ",
                     record.rank == record::kLauncher ? "-" : std::to_string(record.rank),
                     record.pid, record.host, widest, record.written, row.per_second,
                     record::waited_text(waited[row.record]));
    fmt::print("{}", wrapped_line(head, doing(record), columns));
  }
}

void print_jobs(std::FILE* to, const std::vector<LiveJob>& jobs) {
  fmt::print(to, "{:<24} {:>9} {:>6}  {}\n", "job", "process", "ranks", "command");
  for (const LiveJob& job : jobs) {
    fmt::print(to, "{:<24} {:>9} {:>6}  {}\n", job.name.empty() ? "-" : job.name, job.process,
               job.ranks, job.command);
  }
}

/// The one of this name, or the only one whose name begins so; else null.
const LiveJob* find_job(const std::vector<LiveJob>& jobs, const std::string& name) {
  const auto same = std::ranges::find(jobs, name, &LiveJob::name);
  if (same != jobs.end()) return &*same;
  const auto begins = [&](const LiveJob& job) { return job.name.starts_with(name); };
  if (std::ranges::count_if(jobs, begins) != 1) return nullptr;
  return &*std::ranges::find_if(jobs, begins);
}

int list() {
  const std::vector<LiveJob> jobs = live_jobs();
  if (jobs.empty()) {
    fmt::print(stderr, "tutti status: no job of yours runs on this host\n");
    return 1;
  }
  print_jobs(stdout, jobs);
  return 0;
}

/// The job of this name; what a name does not tell, the list does.
int run_job(const std::string& name, const std::string& trouble) {
  const std::vector<LiveJob> jobs = live_jobs();
  if (const LiveJob* const job = find_job(jobs, name)) {
    print_status(job->recorders);
    return 0;
  }
  const bool several =
      std::ranges::any_of(jobs, [&](const LiveJob& job) { return job.name.starts_with(name); });
  if (!trouble.empty())
    fmt::print(stderr, "tutti status: {}\n", trouble);
  else
    fmt::print(stderr, "tutti status: {} of yours on this host {} \"{}\"\n",
               several ? "several jobs" : "no job",
               several ? "have names that begin with" : "has the name",
               base::shown_on_line(name, 200));
  if (!jobs.empty()) print_jobs(stderr, jobs);
  return 1;
}

/// Of a process; a number may be the name of a job, too, as Slurm's are.
int run(const std::string& which) {
  const int pid = base::whole_number(which).value_or(0);
  if (pid <= 0) return run_job(which, {});
  auto recorders = recorders_of(pid);
  if (recorders && !recorders->empty()) {
    print_status(*recorders);
    return 0;
  }
  return run_job(which, recorders
                            ? base::format("process {} has no flight recorder in use: give that of "
                                           "tuttirun, or of a rank that has called init",
                                           pid)
                            : std::string(recorders.status().message()));
}

}  // namespace

void add_status_command(CLI::App& app, int& exit_code) {
  auto which = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      "status", "Tells what the ranks of a running job do, without disturbing them");
  command->add_option("job", *which,
                      "Name of the job (--rdzv-id), or the beginning of it, or the process id of "
                      "tuttirun or of a rank; without it your jobs on this host are listed");
  command->callback([=, &exit_code] { exit_code = which->empty() ? list() : run(*which); });
}

}  // namespace tutti::cli
