#include "rank_process.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>

#include "base/format.hpp"
#include "base/number.hpp"
#include "os/process_stat.hpp"

namespace tutti::launcher {
namespace {

namespace fs = std::filesystem;

/// Nothing if the process has ended, or cannot be seen.
std::optional<os::ProcessStat> look_at(pid_t process) {
  auto stat = os::process_stat(process);
  if (stat && stat->ended()) stat.reset();
  return stat;
}

/// The processes from this one's parent upwards, as far as they can be seen.
std::vector<pid_t> ancestors_of(pid_t process) {
  constexpr std::size_t kMostDeep = 100;  // numbers may be given anew while we look
  std::vector<pid_t> ancestors;
  for (auto running = look_at(process); running && running->parent > 1;
       running = look_at(ancestors.back())) {
    ancestors.push_back(running->parent);
    if (ancestors.size() >= kMostDeep) break;
  }
  return ancestors;
}

bool holds(const std::vector<pid_t>& processes, pid_t process) {
  return std::ranges::find(processes, process) != processes.end();
}

bool is_below(pid_t process, pid_t worker) {
  const auto is_in_group = [&](pid_t one) {
    const auto running = look_at(one);
    return running && running->group == worker;
  };
  const std::vector<pid_t> ancestors = ancestors_of(process);
  return process == worker || is_in_group(process) || holds(ancestors, worker) ||
         std::ranges::any_of(ancestors, is_in_group);
}

/// The number of the process in the innermost of its pid namespaces.
pid_t own_number_of(pid_t process) {
  std::ifstream file(base::format("/proc/{}/status", process));
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("NSpid:")) continue;
    std::istringstream numbers(line.substr(line.find(':') + 1));
    pid_t last = 0;
    for (pid_t number = 0; numbers >> number;) last = number;
    return last;
  }
  return 0;
}

}  // namespace

std::vector<pid_t> find_ranks(pid_t worker, std::span<const int> told) {
  std::vector<pid_t> found;
  std::vector<int> elsewhere;  // numbers of other pid namespaces
  for (const int process : told) {
    if (look_at(process) && own_number_of(process) == process && is_below(process, worker))
      found.push_back(process);
    else
      elsewhere.push_back(process);
  }
  std::error_code unreadable;
  fs::directory_iterator all;
  if (!elsewhere.empty()) all = fs::directory_iterator("/proc", unreadable);
  for (const auto& entry : all) {
    const pid_t process = base::whole_number(entry.path().filename().string()).value_or(0);
    if (process <= 0) continue;
    const pid_t number = own_number_of(process);
    if (number != process && holds(elsewhere, number) && look_at(process) &&
        is_below(process, worker))
      found.push_back(process);
  }
  std::vector<pid_t> ranks;
  std::ranges::copy_if(found, std::back_inserter(ranks), [&](pid_t one) {
    const std::vector<pid_t> ancestors = ancestors_of(one);
    return std::ranges::none_of(ancestors, [&](pid_t other) { return holds(found, other); });
  });
  return ranks;
}

}  // namespace tutti::launcher
