#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/library.hpp"
#include "bench/protocol.hpp"

namespace tutti::bench {

/// A library did not start, ended early, hung or gave a wrong result.
struct JobError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RankAnswer {
  Answer answer;
  std::vector<double> samples;
};

/// All ranks of one library, alive and asleep between commands. Ends them when it goes.
class Job {
 public:
  using Clock = std::chrono::steady_clock;

  /// Starts the programs and waits until all ranks have said hello. Throws JobError.
  Job(const LaunchRequest& request, Clock::duration timeout);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();

  [[nodiscard]] const std::string& version() const { return version_; }
  [[nodiscard]] const std::string& settings() const { return settings_; }

  /// The processes of the ranks.
  [[nodiscard]] std::vector<pid_t> processes() const;

  /// Has all ranks do it; the answers in order of rank. Throws JobError.
  std::vector<RankAnswer> ask(const Command& command, Clock::duration timeout);

 private:
  struct Rank {
    int socket = -1;
    pid_t pid = 0;
    int pidfd = -1;  ///< a process started by the library's launcher may outlive it
  };

  void start(const Launch& launch);
  void greet(Clock::time_point deadline);
  void welcome(int connection);
  [[nodiscard]] bool launcher_ended();
  [[nodiscard]] JobError failure(const std::string& what);
  void end() noexcept;
  bool wait_for_launchers(Clock::duration timeout) noexcept;

  LaunchRequest request_;
  std::string settings_;
  std::string version_;
  std::filesystem::path log_;
  bool failed_ = false;  ///< not worth asking to end
  int listener_ = -1;
  std::vector<pid_t> launchers_;  ///< each leads a process group of its own
  std::vector<Rank> ranks_;
};

}  // namespace tutti::bench
