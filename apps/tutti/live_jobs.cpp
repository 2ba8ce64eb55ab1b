#include "apps/tutti/live_jobs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "base/number.hpp"
#include "base/shown.hpp"
#include "os/fd.hpp"

namespace tutti::cli {
namespace {

namespace fs = std::filesystem;

/// Variables of a rank that name its job; the first one counts that is set.
constexpr std::array kNames = {"TORCHELASTIC_RUN_ID", "TUTTI_JOB", "SLURM_JOB_ID",
                               "PMIX_NAMESPACE"};
constexpr std::size_t kMostCommand = 60;  // characters that are shown
constexpr std::size_t kMostName = 200;

struct Opened {
  std::uint64_t inode = 0;  ///< the same memory has the same one in all processes
  LiveRecorder recorder;
};

Result<std::vector<Opened>> open_recorders(int pid) {
  std::vector<Opened> found;
  std::set<std::uint64_t> seen;  // a rank holds its own twice
  std::error_code error;
  for (fs::directory_iterator entry(base::format("/proc/{}/fd", pid), error), end;
       !error && entry != end; entry.increment(error)) {
    std::error_code unreadable;
    const std::string name = fs::read_symlink(entry->path(), unreadable).string();
    if (unreadable || !name.starts_with(base::format("/memfd:{}", record::kMemoryName))) continue;
    const os::Fd fd(::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC));
    struct stat about {};
    if (!fd.valid() || ::fstat(fd.get(), &about) != 0 ||
        !os::check_memfd(fd, record::kRecordBytes).ok())
      continue;
    if (!seen.insert(about.st_ino).second) continue;
    auto mapping = os::map_shared(fd, record::kRecordBytes, false);
    if (mapping) found.push_back({about.st_ino, LiveRecorder(std::move(*mapping))});
  }
  if (error)
    return Outcome(Errc::invalid_argument,
                   base::format("process {} cannot be looked at: {}", pid, error.message()));
  return found;
}

/// Texts that end with 0 each: the environment or the command of a process.
std::vector<std::string> texts_in(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> texts;
  for (std::string text; std::getline(file, text, '\0');) texts.push_back(std::move(text));
  return texts;
}

std::string job_name_of(int pid) {
  const auto environment = texts_in(base::format("/proc/{}/environ", pid));
  for (const std::string_view name : kNames) {
    for (const std::string& entry : environment) {
      if (!entry.starts_with(base::format("{}=", name))) continue;
      const std::string value = base::shown_on_line(entry.substr(name.size() + 1, kMostName));
      // Launchers write "none" where nobody has given a name.
      if (!value.empty() && value != "none") return value;
    }
  }
  return {};
}

std::string command_of(int pid) {
  std::string command;
  for (const std::string& word : texts_in(base::format("/proc/{}/cmdline", pid))) {
    if (!command.empty()) command += ' ';
    command += command.empty() ? fs::path(word).filename().string() : word;
    if (command.size() > kMostCommand) break;
  }
  if (command.size() <= kMostCommand) return base::shown_on_line(command);
  return base::shown_on_line(base::cut(command, kMostCommand)) + "...";
}

/// The processes of this user, without this one.
std::vector<int> processes() {
  std::vector<int> pids;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const int pid = base::whole_number(entry->path().filename().string()).value_or(0);
    struct stat about {};
    if (pid == 0 || pid == ::getpid()) continue;
    if (::stat(entry->path().c_str(), &about) == 0 && about.st_uid == ::geteuid())
      pids.push_back(pid);
  }
  std::ranges::sort(pids);
  return pids;
}

struct Held {
  LiveRecorder recorder;
  std::vector<int> by;  ///< ascending
};

/// The rank's environment has the name of the job. A launcher's may have that of another one, which
/// has started it.
std::string job_name_of(int rank_pid, const std::vector<int>& holders) {
  const bool rank_lives = std::ranges::find(holders, rank_pid) != holders.end();
  return job_name_of(rank_lives ? rank_pid : holders.back());
}

}  // namespace

Result<std::vector<LiveRecorder>> recorders_of(int pid) {
  auto opened = open_recorders(pid);
  if (!opened) return opened.status();
  std::vector<LiveRecorder> recorders;
  for (Opened& one : *opened) {
    if (one.recorder.read().ok()) recorders.push_back(std::move(one.recorder));
  }
  return recorders;
}

std::vector<LiveJob> live_jobs() {
  std::map<std::uint64_t, Held> held;
  for (const int pid : processes()) {
    auto opened = open_recorders(pid);
    if (!opened) continue;  // it has ended, or does not let others look
    for (Opened& one : *opened)
      held.try_emplace(one.inode, Held{std::move(one.recorder), {}})
          .first->second.by.push_back(pid);
  }
  std::map<std::pair<std::string, int>, LiveJob> jobs;
  std::map<int, std::string> names;  // of jobs, by the processes that hold the memory of ranks
  for (const auto& [inode, one] : held) {
    auto record = one.recorder.read();
    if (!record || record->rank == record::kLauncher) continue;
    for (const int pid : one.by) names.emplace(pid, job_name_of(record->pid, one.by));
  }
  for (auto& [inode, one] : held) {
    auto record = one.recorder.read();
    if (!record) continue;  // its rank has not called init yet
    const bool launcher = record->rank == record::kLauncher;
    const std::string name = launcher ? names[one.by.front()] : job_name_of(record->pid, one.by);
    const int process = one.by.front();  // launchers begin before their ranks
    // Nodes of a job that run on one host have the name alone in common.
    LiveJob& job = jobs[{name, name.empty() ? process : 0}];
    job.name = name;
    job.process = job.process == 0 ? process : std::min(job.process, process);
    job.recorders.push_back(std::move(one.recorder));
    if (!launcher) ++job.ranks;
  }
  std::vector<LiveJob> all;
  for (auto& [key, job] : jobs) {
    job.command = command_of(job.process);
    all.push_back(std::move(job));
  }
  return all;
}

}  // namespace tutti::cli
