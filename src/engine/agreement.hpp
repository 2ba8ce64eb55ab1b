#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <tutti/error.hpp>

#include "call/call_code.hpp"
#include "engine/clock.hpp"
#include "engine/group.hpp"
#include "engine/message_channel.hpp"
#include "engine/world.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// Compares the calls of ranks if the steps of a schedule do not; the steps compare arrival lines
/// and the heads of frames. This class does strict agreement between hosts, and the comparisons of
/// each tick. It also finds the call that differs if that is an earlier one. It returns the cause
/// for which the group is to break, and breaks nothing itself.
///
/// Threads: none; under the driver lock.
class Agreement {
 public:
  /// The cause for which the group is to break. Nothing: the calls are equal, or another rank was
  /// asked for its calls. Its answer, or no answer in time (check_history), gives the cause later.
  using Cause = std::optional<Outcome>;

  /// Both must stay as long as this does.
  Agreement(const World& world, MessageChannel& channel) noexcept
      : world_(world), channel_(channel) {}

  // Tokens, for strict agreement and for algorithms that forward outputs
  // (BoundPlan::forwards_output). In round k every rank sends a token to the rank 2^k further on. A
  // token means that its sender, and all ranks that the sender has heard from, have entered this
  // call. A rank compares each token with its own call before it sends the next one. So after all
  // rounds it knows that all calls are equal.
  /// Takes the tokens that came before the operation.
  [[nodiscard]] Cause begin(Op& op);
  /// Sends what is due. True: something moved.
  bool advance(Op& op);
  [[nodiscard]] Cause on_token(Op& op, int rank, const transport::TokenFrame& token);

  // Differences.
  /// The other rank calls `theirs` as operation `seq`, or tells another fingerprint with it.
  [[nodiscard]] Cause differs(Op& op, int other, const call::CallCode& theirs, std::uint64_t seq);
  /// The line of a rank of our host shows another fingerprint. Its block must have been found.
  [[nodiscard]] Cause differs_in_lines(Op& op, int other);
  /// A rank of our host has passed a call that differs, and needs nothing from us; so we may not
  /// have looked at its lines.
  [[nodiscard]] Outcome differs_behind(const Group& group, int other) const;
  /// The two do not exchange as many elements as each other expects.
  [[nodiscard]] Outcome splits_differ(const Op& op, int rank,
                                      const transport::DataFrame& data) const;
  /// If calls differ, one rank may wait for a message and another one for shared memory, and both
  /// for ever. So each tick compares the lines of our host, and frames that are held.
  [[nodiscard]] Cause compare_both_ways(Op& op);
  /// True if a held frame shows that `rank` made another call than `op`. A rank that needed nothing
  /// from us may have finished `op` long ago, and not remember it when a ping asks. But the
  /// fingerprint in a frame of its next call includes this one.
  [[nodiscard]] bool next_call_differs(const Op& op, int rank);

  // History. The calls are equal, but an earlier call is not. The rank that notices it sends the
  // other one its last calls and waits a moment. The other one finds the first call that differs,
  // and breaks the group with both names and both calls.
  /// False: the other rank cannot be asked.
  bool ask_history(Op& op, int rank);
  /// The cause if the other rank has not broken the group in time. `op`: one that waits for that.
  [[nodiscard]] Cause check_history(const Op& op, TimePoint now) const;
  /// Another rank has sent its last calls. Our group may remember none of them any more.
  [[nodiscard]] Cause on_history(Group& group, int rank, std::uint64_t seq,
                                 std::span<const std::byte> payload) const;

 private:
  /// The first call before `end` that differs from ours in the lines of a rank of our host.
  [[nodiscard]] Cause first_difference(const Group& group, int other, std::uint64_t end) const;
  [[nodiscard]] Outcome cause_of(const Group& group, int other, const call::CallCode* theirs,
                                 std::uint64_t seq) const;

  const World& world_;
  MessageChannel& channel_;
};

}  // namespace tutti::engine
