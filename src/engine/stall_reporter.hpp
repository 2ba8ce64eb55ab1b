#pragma once

#include <cstdint>
#include <string>

#include "engine/failure_detector.hpp"
#include "engine/group.hpp"
#include "engine/world.hpp"

namespace tutti::engine {

/// Tells of operations that have waited for World::stall_warning: a line for the log, from one rank
/// of the group, with the ranks that have not come and what they do. The rank that tells has made
/// the call, is not through with it, and finds no lower one of which that is true: it looks at all
/// of its host, and asks at most kMostAsked just below it, which themselves do so. It asks nobody
/// before that time, and breaks nothing.
///
/// Threads: none; under the driver lock.
class StallReporter {
 public:
  /// Both must stay as long as this does.
  StallReporter(const World& world, FailureDetector& detector) noexcept
      : world_(world), detector_(detector) {}

  [[nodiscard]] bool is_on() const noexcept { return world_.stall_warning.count() > 0; }

  /// A look at the first operation of its group that has not ended here.
  void look(const Op& op, TimePoint now);
  /// ... at the first call of the group where it waits for a slot.
  void look_at_queue(Group& group, TimePoint now);
  /// A send or recv that waits for one rank, or kAnySource: has it waited so long, and have those
  /// ranks been asked? Then its caller tells, and `doing_of` knows their answers.
  [[nodiscard]] bool is_due(Group& group, StallTimer& timer, std::uint64_t ticket, int rank,
                            TimePoint now);
  /// What the rank has answered since then; a rank of our host that runs and answers nothing is in
  /// no call.
  [[nodiscard]] std::optional<std::string> doing_of(const Group& group, int rank,
                                                    TimePoint asked) const;
  /// Writes the line, which begins so.
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
