#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "apps/bench/job.hpp"
#include "apps/bench/library.hpp"
#include "os/death_watch.hpp"
#include "os/fd.hpp"
#include "os/process.hpp"

namespace tutti::bench {

/// A job whose ranks are started here, on this host. Ends them when it goes.
class StartedJob final : public Job {
 public:
  /// Starts the programs and waits until all ranks have said hello. Throws JobError.
  StartedJob(const LaunchRequest& request, Clock::duration timeout);
  StartedJob(const StartedJob&) = delete;
  StartedJob& operator=(const StartedJob&) = delete;
  ~StartedJob() override;

  [[nodiscard]] std::string version() const override { return version_; }
  [[nodiscard]] std::string settings() const override { return settings_; }
  [[nodiscard]] std::vector<pid_t> processes() const override;
  [[nodiscard]] bool has_one_clock() const override { return true; }

  std::vector<RankAnswer> ask(const Command& command, Clock::duration timeout) override;

 private:
  struct Rank {
    os::Fd socket;
    pid_t pid = 0;
    os::DeathWatch process;  ///< one that the library's launcher has started may outlive it
  };

  void start(const Launch& launch);
  void greet(Clock::time_point deadline);
  void welcome(os::Fd connection);
  [[nodiscard]] bool launcher_ended();
  [[nodiscard]] JobError failure(const std::string& what);
  /// Of a rank that ended before its launcher did, which may still have to hand on what it wrote.
  [[nodiscard]] JobError lost(const std::string& what);
  void end() noexcept;
  bool wait_for_launchers(Clock::duration timeout) noexcept;

  LaunchRequest request_;
  std::string settings_;
  std::string version_;
  std::filesystem::path log_;
  bool failed_ = false;  ///< not worth asking to end
  os::Fd listener_;
  std::vector<os::Process> launchers_;  ///< each leads a process group of its own
  std::vector<Rank> ranks_;
};

}  // namespace tutti::bench
