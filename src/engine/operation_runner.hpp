#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <tutti/backend/collective.hpp>

#include "engine/agreement.hpp"
#include "engine/completion_queue.hpp"
#include "engine/failure_propagation.hpp"
#include "engine/group_table.hpp"
#include "engine/interpreter.hpp"
#include "engine/message_channel.hpp"
#include "engine/region_channel.hpp"
#include "engine/world.hpp"

namespace tutti::engine {

/// Begins, advances and ends the collective operations of all groups of this rank, and those calls
/// that wait for a slot. If one cannot go on, it breaks the group for the cause that it is given.
///
/// Threads: none; under the driver lock.
class OperationRunner final : public FailurePropagation::Operations {
 public:
  /// All must stay as long as the runner does.
  OperationRunner(const World& world, GroupTable& groups, MessageChannel& channel,
                  FailurePropagation& propagation, Agreement& agreement,
                  CompletionQueue& completions);

  /// Numbers the call and begins it, or queues it behind a full window. Returns its number.
  std::uint64_t submit(Group& group, const Collective& call) noexcept;
  /// Moves what can move. True if something did. The operation may end in it.
  bool advance(Op& op);
  bool advance_all();
  /// Begins the queued calls that have got a slot. True if there were any.
  bool start_queued();
  /// Uses the frames of this rank that came before the operation could use them.
  void deliver_held(Op& op, int rank);

  /// The operations that run, in the order of their start.
  [[nodiscard]] const std::vector<Op*>& running() const noexcept { return active_; }
  /// How many calls wait for a slot, over all groups.
  [[nodiscard]] int queued() const noexcept { return queued_; }
  [[nodiscard]] bool busy() const noexcept { return !active_.empty() || queued_ > 0; }
  [[nodiscard]] bool has_large() const noexcept {
    return std::ranges::any_of(active_, [](const Op* op) { return op->is_large(); });
  }
  /// Describes an operation that runs; empty: none does.
  [[nodiscard]] std::string running_text() const;
  [[nodiscard]] Staging& staging() noexcept { return regions_.staging(); }
  [[nodiscard]] const StagingPolicy& staging_policy() const noexcept { return regions_.policy(); }

  // FailurePropagation::Operations
  void end_all(Group& group) noexcept override;

 private:
  /// True if the call may begin. Breaks the group if a rank has made other calls.
  [[nodiscard]] bool may_begin(Group& group, const Collective& call, const BoundPlan& bound);
  void start(Group& group, const Collective& call, const BoundPlan& bound, std::uint64_t record);
  bool start_queued(Group& group);
  [[nodiscard]] bool take_memory(Op& op);
  void report(Op& op, const Interpreter::Finding& finding);
  [[nodiscard]] bool pass(Op& op);
  void check_borrowed(Op& op);
  void finish(Op& op) noexcept;
  void end(Op& op) noexcept;
  void release_memory(Op& op) noexcept;
  void call_back(Op& op, const Outcome& status) noexcept;

  const World& world_;
  record::FlightRecorder* const recorder_;  ///< World::recorder
  GroupTable& groups_;
  MessageChannel& channel_;
  FailurePropagation& propagation_;
  Agreement& agreement_;
  CompletionQueue& completions_;
  RegionChannel regions_;
  Interpreter interpreter_;
  std::vector<Op*> active_;
  int queued_ = 0;
};

}  // namespace tutti::engine
