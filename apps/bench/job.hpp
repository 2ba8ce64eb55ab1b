#pragma once

#include <sys/types.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/bench/protocol.hpp"

namespace tutti::bench {

/// A library did not start, ended early, hung or gave a wrong result.
struct JobError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct RankAnswer {
  Answer answer;
  std::vector<double> samples;
};

/// All ranks of one library, alive and asleep between commands.
class Job {
 public:
  using Clock = std::chrono::steady_clock;

  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  /// Ends what the job has started; ranks that somebody else started go on without it.
  virtual ~Job() = default;

  /// The library's name and version.
  [[nodiscard]] virtual std::string version() const = 0;
  /// The settings it was started with, for the report.
  [[nodiscard]] virtual std::string settings() const = 0;
  /// The processes of its ranks on this host.
  [[nodiscard]] virtual std::vector<pid_t> processes() const = 0;
  /// True if all ranks read the same clock: times of different ranks can be compared.
  [[nodiscard]] virtual bool has_one_clock() const = 0;

  /// Has all ranks do it; the answers in order of rank. Throws JobError.
  virtual std::vector<RankAnswer> ask(const Command& command, Clock::duration timeout) = 0;
};

}  // namespace tutti::bench
