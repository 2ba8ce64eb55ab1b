#pragma once

#include <string>
#include <vector>

#include <tutti/process_group.hpp>

#include "apps/bench/job.hpp"
#include "apps/bench/peers/tutti_library.hpp"

namespace tutti::bench {

/// A job that somebody else has launched, on one host or several, this process being one of its
/// ranks: our own library, which carries the commands and the answers, too. Rank 0 asks, the others
/// `follow`. When rank 0's goes, the others' `follow` returns.
class JoinedJob final : public Job {
 public:
  /// On every rank of the world; the ranks tell each other where they are. Throws tutti::Error.
  explicit JoinedJob(ProcessGroup world, DeviceType device = DeviceType::cpu);
  JoinedJob(const JoinedJob&) = delete;
  JoinedJob& operator=(const JoinedJob&) = delete;
  ~JoinedJob() override;

  [[nodiscard]] int rank() const { return library_.rank(); }
  [[nodiscard]] int size() const { return library_.size(); }

  [[nodiscard]] std::string version() const override { return library_.name(); }
  [[nodiscard]] std::string settings() const override;
  [[nodiscard]] std::vector<pid_t> processes() const override;
  [[nodiscard]] bool has_one_clock() const override { return one_clock_; }

  /// On rank 0. The world's timeout counts, and not this one.
  std::vector<RankAnswer> ask(const Command& command, Clock::duration timeout) override;

  /// On the other ranks: does what rank 0 asks until it has no more. Throws tutti::Error.
  void follow();

 private:
  /// Returns the answers of all ranks on rank 0; what they hold elsewhere says nothing.
  std::vector<RankAnswer> perform(const Command& command);

  TuttiLibrary library_;
  Performer performer_{library_};
  int hosts_ = 1;
  bool one_clock_ = true;
  std::vector<pid_t> processes_;
  bool failed_ = false;  ///< the world is broken: nobody can be told to end
};

}  // namespace tutti::bench
