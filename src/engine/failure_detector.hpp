#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <tutti/error.hpp>

#include "engine/blame.hpp"
#include "engine/clock.hpp"
#include "engine/control_channel.hpp"
#include "engine/group.hpp"
#include "engine/world.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// Finds the rank that is late, gone or stopped. It pings ranks of other hosts, and reads the lines
/// and the process states of this host. It returns the cause for which a group is to break, and
/// breaks nothing itself. Its callers pass the ranks that a call waits for.
///
/// Threads: none; under the driver lock.
class FailureDetector {
 public:
  /// Both must stay as long as this does.
  FailureDetector(const World& world, ControlChannel& channel) noexcept
      : world_(world), channel_(channel) {}

  // Pings. Ranks of our host get none: if one computes, no thread of it may drive the engine to
  // answer, and its lines and the state of its process say more.
  /// Sends a rank of another host the operation in which we wait for it.
  void ping(const Op& op, int rank);
  /// The same for sends and recvs, which have no number that both sides know.
  void ping(const Group& group, int rank);
  /// Asks a rank of any host what it is doing (PongFrame::tells_doing).
  void ask_doing(Group& group, int rank);
  /// True if the ranks that the operation waits for are to be pinged now; sets the next time.
  [[nodiscard]] static bool is_ping_due(Op& op, TimePoint now) noexcept;
  /// True once, some time before the deadline: it is time to ask other ranks; sets `asked`.
  [[nodiscard]] static bool is_time_to_ask(TimePoint& asked, TimePoint deadline,
                                           std::chrono::nanoseconds timeout,
                                           TimePoint now) noexcept;
  /// Pings all ranks of other hosts once, some time before the deadline, so that we are connected
  /// with them at the deadline: connecting takes longer than an answer. Asks them, and some late
  /// ranks of our host, what they are doing.
  void ask_ahead(Op& op, TimePoint now);
  /// The answer of the rank since `asked`. A rank of our host that runs, and that was asked and has
  /// not answered, is in no call.
  [[nodiscard]] std::optional<std::string> doing_of(const Group& group, int rank,
                                                    TimePoint asked) const;
  /// The same at a deadline: nothing, too, if it was not asked, or if a rank of our host has not
  /// had the time to answer.
  [[nodiscard]] std::optional<std::string> told_ahead(const Group& group, int rank, TimePoint asked,
                                                      TimePoint now) const;
  /// Answers a ping: tells how far this rank is in the group. `group`: nullptr: it has none of that
  /// id; `is_closed`: any more. `doing`: what it is doing, where the ping asks for that.
  void answer(int peer, const transport::PingFrame& ping, Group* group, bool is_closed,
              std::string doing);
  /// Takes the answer of a rank of the group. `doing`: the text of the pong, if it has one.
  void on_pong(Group& group, int rank, const transport::PongFrame& pong,
               std::span<const std::byte> doing);
  /// True if the operation of that number has ended on that rank, or the rank has left gracefully,
  /// or has destroyed the group. Then the state of its process does not explain why others wait.
  [[nodiscard]] bool is_through(Group& group, int rank, std::uint64_t seq) const noexcept;

  /// The state of a member's process, in words ("stopped"); empty: it runs, or we cannot see it.
  [[nodiscard]] std::string state_of(const Member& member) const;

  // Observations.
  /// Notes in `blame` how far a rank has come in an operation. A rank of another host must have
  /// answered since `asked`. False: nothing is noted, because the operation has ended on that rank
  /// and `blame` does not wait for it.
  bool observe(const Op& op, int rank, TimePoint asked, Blame& blame) const;
  /// Notes in `blame` what this rank itself has moved in an operation.
  static void observe_own(const Op& op, Blame& blame);
  /// Observes the ranks of our host for the first call that waits for a slot: those that have not
  /// passed the operation that is in the slot.
  [[nodiscard]] Blame observe_queue(Group& group) const;
  /// How many operations may be under way when that call begins.
  [[nodiscard]] static int most_under_way(Group& group) {
    return group.plans->find(group.window.first_queued().call()).window;
  }

  // Causes.
  /// The cause for an operation whose deadline has passed. Nothing: ranks of other hosts are asked
  /// first, and get a new deadline to answer. `waited`: the ranks that it waits for.
  [[nodiscard]] std::optional<Outcome> time_out(Op& op, TimePoint now, std::span<const int> waited);
  /// The cause for a call that waits too long for its slot, because a rank of our host has not
  /// passed the operation in it. Such a call has no line yet, but its timeout runs.
  /// Asks that rank, before the deadline, what it is doing.
  [[nodiscard]] std::optional<Outcome> check_queue(Group& group, TimePoint now);
  /// The cause for an operation that waits for a rank that is gone.
  [[nodiscard]] Outcome gone(const Op& op, int rank) const;

 private:
  bool ping_other_hosts(const Op& op);

  const World& world_;
  ControlChannel& channel_;
};

}  // namespace tutti::engine
