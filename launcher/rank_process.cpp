#include "rank_process.hpp"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

namespace tutti::launcher {
namespace {

struct Running {
  pid_t parent = 0;
  pid_t group = 0;
};

/// Nothing if the process has ended, or cannot be seen.
std::optional<Running> look_at(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string text;
  std::getline(file, text);
  const std::size_t name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  char state = 0;
  Running found;
  if (!(rest >> state >> found.parent >> found.group) || state == 'Z' || state == 'X')
    return std::nullopt;
  return found;
}

bool is_below(pid_t process, pid_t worker) {
  constexpr int kMostDeep = 100;  // numbers may be given anew while we look
  for (int depth = 0; depth < kMostDeep && process > 1; ++depth) {
    const auto running = look_at(process);
    if (process == worker || (running && running->group == worker)) return true;
    if (!running) return false;
    process = running->parent;
  }
  return false;
}

/// The number of the process in the innermost of its pid namespaces.
pid_t own_number_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/status", process));
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

std::optional<pid_t> find_rank(pid_t worker, pid_t told) {
  if (told <= 0) return std::nullopt;
  if (look_at(told) && own_number_of(told) == told && is_below(told, worker)) return told;
  std::error_code unreadable;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", unreadable)) {
    const std::string name = entry.path().filename().string();
    pid_t process = 0;
    const char* const end = name.data() + name.size();
    if (std::from_chars(name.data(), end, process).ptr != end || process <= 0) continue;
    if (own_number_of(process) == told && process != told && look_at(process) &&
        is_below(process, worker))
      return process;
  }
  return std::nullopt;
}

}  // namespace tutti::launcher
