#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <random>
#include <vector>

namespace tutti::fault {

/// With FAULT_FORKS: forks children as a data loader does. They hold a copy of each descriptor of
/// their parent, and outlive it if it is killed; then they end by themselves.
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
      ::close(STDOUT_FILENO);  // its end is to be its parent's
      ::alarm(kSecondsOfALife);
      while (true) ::pause();
    }
    if (pid > 0) pids_.push_back(pid);
  }

 private:
  static constexpr std::size_t kMost = 3;
  static constexpr unsigned kSecondsOfALife = 20;

  bool forks_ = std::getenv("FAULT_FORKS") != nullptr;
  std::mt19937 random_{static_cast<unsigned>(::getpid())};
  std::vector<pid_t> pids_;
};

}  // namespace tutti::fault
