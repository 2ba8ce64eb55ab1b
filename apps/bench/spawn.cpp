#include "apps/bench/spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

extern char** environ;

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;

volatile sig_atomic_t interrupt_seen = 0;

std::vector<std::string> environment_with(const Program& program, const fs::path& directory) {
  std::vector<std::string> variables;
  const auto ours = [&](std::string_view entry) {
    const auto name = entry.substr(0, entry.find('='));
    return name == "TMPDIR" || std::any_of(program.environment.begin(), program.environment.end(),
                                           [&](const auto& pair) { return pair.first == name; });
  };
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!ours(*entry)) variables.emplace_back(*entry);
  }
  for (const auto& [name, value] : program.environment) variables.push_back(name + "=" + value);
  variables.push_back("TMPDIR=" + directory.string());
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> list;
  for (auto& word : words) list.push_back(word.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

pid_t start_program(const Program& program, const fs::path& directory, const fs::path& log) {
  auto argv = program.argv;
  auto variables = environment_with(program, directory);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, argv[0].c_str(), &files, &attributes, pointers(argv).data(),
                                  pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    throw std::runtime_error(fmt::format("cannot start {}: {}", argv[0], std::strerror(error)));
  }
  return pid;
}

void end_orphans() noexcept {
  // Each round may free others below: those of whom an ended one was the parent.
  for (int round = 0; round < 100; ++round) {
    std::ifstream list(fmt::format("/proc/self/task/{}/children", ::getpid()));
    bool any = false;
    for (pid_t pid = 0; list >> pid;) {
      any = true;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    if (!any) return;
  }
}

void prepare_process() {
  // Processes that outlive the launcher that started them become children of this process, which
  // can then end and collect them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction action {};
  action.sa_handler = [](int) { interrupt_seen = 1; };
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
}

bool interrupted() noexcept { return interrupt_seen != 0; }

void check_interrupt() {
  if (interrupted()) throw Interrupted();
}

}  // namespace tutti::bench
