#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <tutti/error.hpp>

#include "engine/call_code.hpp"
#include "engine/clock.hpp"
#include "engine/group.hpp"
#include "engine/message_channel.hpp"
#include "engine/world.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// Compares calls beyond the lines and the heads of frames, which each step compares by
/// itself: strict agreement between hosts, calls that are compared now and then, and which calls
/// differ where a difference lies further back. It gives the cause and breaks nothing.
///
/// Threads: none; under the driver lock.
class Agreement {
 public:
  /// The cause for which the group is to break. Nothing: no difference, or another rank was asked
  /// for its calls and will tell, or ends the wait by not answering (check_history).
  using Cause = std::optional<Status>;

  /// Both must stay as long as this does.
  Agreement(const World& world, MessageChannel& channel) noexcept
      : world_(world), channel_(channel) {}

  // Strict, and where blocks are handed on (BoundPlan::forwards_output): tokens. In round k every
  // rank tells the rank 2^k further on that it has entered the call, and that all it has heard of
  // have too. A token says its sender's call; each is compared with ours before the next is sent,
  // so a rank that has those of all rounds knows that all calls are equal.
  /// Takes the tokens that came before the operation.
  [[nodiscard]] Cause begin(Op& op);
  /// Sends what is due. True: something moved.
  bool advance(Op& op);
  [[nodiscard]] Cause on_token(Op& op, int rank, const transport::TokenFrame& token);

  // Differences.
  /// The other rank calls `theirs` as operation `seq`, or tells another fingerprint with it.
  [[nodiscard]] Cause differs(Op& op, int other, const CallCode& theirs, std::uint64_t seq);
  /// The line of a rank of our host, which was found, shows another fingerprint.
  [[nodiscard]] Cause differs_in_lines(Op& op, int other);
  /// The two do not exchange as many elements as each other expects.
  [[nodiscard]] Status splits_differ(const Op& op, int rank,
                                     const transport::DataFrame& data) const;
  /// One rank's call may go by messages and another's by shared memory: each then waits for what
  /// the other never sends. So both ways are looked at now and then.
  [[nodiscard]] Cause compare_both_ways(Op& op);
  /// A rank that needed nothing of us for its call may be far beyond it, and has forgotten the call
  /// that a ping asks about. Of its next call a frame may be held here: what is mixed into that
  /// fingerprint is this call.
  [[nodiscard]] bool next_call_differs(const Op& op, int rank);

  // History. The calls are equal, but something before is not. The rank that finds it tells the
  // other one its last calls and waits a moment: the other one finds the first that differs, and
  // breaks the group with both names and both calls.
  /// False: the other rank cannot be asked.
  bool ask_history(Op& op, int rank);
  /// Of an operation that waits for the answer.
  [[nodiscard]] Cause check_history(const Op& op, TimePoint now) const;
  /// We are asked. A group may have none of these calls any more.
  [[nodiscard]] Cause on_history(Group& group, int rank, std::uint64_t seq,
                                 std::span<const std::byte> payload) const;

 private:
  [[nodiscard]] Status cause_of(const Group& group, int other, const CallCode* theirs,
                                std::uint64_t seq) const;

  const World& world_;
  MessageChannel& channel_;
};

}  // namespace tutti::engine
