#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "speak.hpp"

namespace tutti::fault {

/// With FAULT_FORKS: forks children as a data loader does. They hold a copy of each descriptor of
/// their parent, and outlive it if it is killed; then the test ends them.
class Children {
 public:
  Children() = default;
  ~Children() {
    for (const pid_t pid : pids_) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
  }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  void fork_now_and_then() {
    if (!forks_ || pids_.size() == kMost || random_() % 8 != 0) return;
    const pid_t pid = ::fork();
    if (pid == 0) {
      tell_test();
      ::close(STDOUT_FILENO);  // its end is to be its parent's
      ::alarm(kSecondsOfALife);
      while (true) ::pause();
    }
    if (pid > 0) pids_.push_back(pid);
  }

 private:
  /// "child <ns> <pid>", for the test to end it (speak.hpp), in one write and without stdio, whose
  /// locks other threads of the parent may have held.
  static void tell_test() {
    char line[64];
    const int bytes = std::snprintf(line, sizeof(line), "child %lld %d\n", clock_ns(), ::getpid());
    (void)!::write(STDOUT_FILENO, line, static_cast<std::size_t>(bytes));
  }

  static constexpr std::size_t kMost = 3;
  static constexpr unsigned kSecondsOfALife = 20;

  bool forks_ = std::getenv("FAULT_FORKS") != nullptr;
  std::mt19937 random_{static_cast<unsigned>(::getpid())};
  std::vector<pid_t> pids_;
};

}  // namespace tutti::fault
