#pragma once

#include <cstdint>
#include <string>

#include "engine/failure_detector.hpp"
#include "engine/group.hpp"
#include "engine/world.hpp"

namespace tutti::engine {

/// Logs operations that have waited for World::stall_warning. One rank of the group writes a line
/// with the ranks that have not made the call and what they are doing. That rank has made the call,
/// has not finished it, and has found no lower rank like that. It looks at the ranks of its host,
/// and asks at most kMostAsked ranks just below it, which do the same. It asks no rank before
/// World::stall_warning has passed, and breaks nothing.
///
/// Threads: none; under the driver lock.
class StallReporter {
 public:
  /// Both must stay as long as this does.
  StallReporter(const World& world, FailureDetector& detector) noexcept
      : world_(world), detector_(detector) {}

  [[nodiscard]] bool is_on() const noexcept { return world_.stall_warning.count() > 0; }

  /// Checks the first operation of its group that has not ended here.
  void look(const Op& op, TimePoint now);
  /// Checks the first call of the group that waits for a slot.
  void look_at_queue(Group& group, TimePoint now);
  /// Checks a send or recv that waits for `rank`, which may be any_source. True: it has waited long
  /// enough, and the ranks that it waits for have been asked. Then the caller logs it, with their
  /// answers from FailureDetector::doing_of.
  [[nodiscard]] bool is_due(Group& group, StallTimer& timer, std::uint64_t ticket, int rank,
                            TimePoint now);
  /// Writes the log line that begins with `what`.
  static void tell(const std::string& what, const StallTimer& timer, TimePoint now);

 private:
  [[nodiscard]] bool is_ours_to_tell(Group& group, std::uint64_t seq, bool began, TimePoint now);
  void ask(Group& group, const StallTimer& timer, bool local);
  [[nodiscard]] bool all_have_answered(const Group& group, const StallTimer& timer,
                                       bool local) const noexcept;
  [[nodiscard]] bool waits_in(Group& group, int rank, std::uint64_t seq) const;

  const World& world_;
  FailureDetector& detector_;
};

}  // namespace tutti::engine
