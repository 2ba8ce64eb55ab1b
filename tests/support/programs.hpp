#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "os/process.hpp"
#include "support/stacks.hpp"

// Programs that a test starts, and their processes.
namespace tutti::test {

/// Arguments or variables of a program.
using Words = std::vector<std::string>;

/// These, one after the other.
inline Words joined(std::initializer_list<Words> parts) {
  Words all;
  for (const Words& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// Runs a program to its end; whether it went well.
inline bool runs(Words argv) {
  os::SpawnOptions options;
  options.argv = std::move(argv);
  options.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin"};
  auto process = os::spawn(options);
  if (!process) return false;
  const auto in = [](int seconds) {
    return std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  };
  auto status = process->wait(in(60));
  const bool well = status && *status && (*status)->success();
  if (status && !*status) print_stacks_of_children();
  if (!well) (void)process->kill_group(SIGKILL);
  (void)process->wait(in(5));
  (void)process->collect();
  return well;
}

/// The command that makes a program the first process of a pid namespace; empty: none works here.
inline Words own_pid_namespace() {
  for (const Words& user : {Words(), Words{"-Ur"}}) {
    Words words = joined({{"unshare"}, user, {"--pid", "--fork", "--mount-proc", "--kill-child"}});
    if (runs(joined({words, {"true"}}))) return words;
  }
  return {};
}

/// All that stands in a file; empty where it cannot be read.
inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// How often a text holds another one.
inline int times_in(std::string_view text, std::string_view what) {
  int found = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++found;
  return found;
}

/// The value under this name in /proc/<process>/status; empty: there is none.
inline std::string status_of(const std::string& process, const std::string& name) {
  for (const std::string& line : lines_of(text_of("/proc/" + process + "/status")))
    if (line.starts_with(name + ":")) return line.substr(name.size() + 1);
  return {};
}

inline std::vector<pid_t> children_of(pid_t parent) {
  const std::string pid = std::to_string(parent);
  std::ifstream file("/proc/" + pid + "/task/" + pid + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

}  // namespace tutti::test
