#pragma once

#include <vector>

#include "engine/agreement.hpp"
#include "engine/clock.hpp"
#include "engine/failure_detector.hpp"
#include "engine/failure_propagation.hpp"
#include "engine/group_table.hpp"
#include "engine/operation_runner.hpp"
#include "engine/p2p_table.hpp"
#include "engine/stall_reporter.hpp"
#include "engine/world.hpp"

namespace tutti::engine {

/// Checks at each tick what waits too long: the deadlines of calls, ranks that have left, ranks
/// that make another call. FailureDetector and Agreement give the cause, and the watchdog breaks
/// the group.
///
/// Threads: none; under the driver lock.
class Watchdog {
 public:
  /// The parts that a tick asks. All must stay as long as the watchdog does.
  struct Parts {
    const GroupTable::ById& groups;
    ControlChannel& channel;
    FailurePropagation& propagation;
    FailureDetector& detector;
    Agreement& agreement;
    OperationRunner& operations;
    P2PTable& p2p;
  };
  Watchdog(const World& world, const Parts& parts);

  /// Checks all groups.
  void tick(TimePoint now);
  /// The earliest deadline of anything that runs.
  [[nodiscard]] TimePoint next_deadline() const noexcept;
  [[nodiscard]] StallReporter& stalls() noexcept { return stalls_; }

 private:
  void note_in_record();
  void check_queues(TimePoint now);
  void check(Op& op, TimePoint now);
  void check_calls(Op& op);
  void check_left(Op& op);
  void ping_blocking(Op& op, TimePoint now);
  void look_for_stalls(TimePoint now);

  const World& world_;
  Parts parts_;
  StallReporter stalls_;
  // Kept between ticks: a tick must not need memory.
  std::vector<Op*> ticked_;   ///< the operations that ran when the tick began
  std::vector<int> waiting_;  ///< the ranks that one operation is blocked on
};

}  // namespace tutti::engine
