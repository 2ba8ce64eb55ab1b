#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "engine/blame.hpp"
#include "engine/clock.hpp"
#include "engine/control_channel.hpp"
#include "engine/group.hpp"
#include "engine/world.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// Finds the rank that is late, gone or stopped: it asks ranks of other hosts
/// (pings), reads the lines and the state of the processes of this one, and gives the cause for
/// which a group is to break. It breaks nothing itself, and is told what a call waits for.
///
/// Threads: none; under the driver lock.
class FailureDetector {
 public:
  /// Both must stay as long as this does.
  FailureDetector(const World& world, ControlChannel& channel);

  // Pings. Ranks of our host get none: one that computes may have nobody who would answer, and its
  // lines and the state of its process tell more.
  /// Tells a rank of another host in which operation we wait for it.
  void ping(const Op& op, int rank);
  /// The same for sends and recvs, which have no number that both sides know.
  void ping(const Group& group, int rank);
  /// Is it time to tell those that the operation waits for what it is? Then the next time is later.
  [[nodiscard]] static bool is_ping_due(Op& op, TimePoint now) noexcept;
  /// Before its deadline an operation connects us with all whose answers may be wanted then: an
  /// answer takes less time than getting to know each other.
  void ping_unconnected(Op& op, TimePoint now);
  void on_pong(int peer, const transport::PongFrame& pong) noexcept;
  /// Has this rank of the world answered since then?
  [[nodiscard]] bool has_answered(int peer, TimePoint since) const noexcept;

  /// Of the process of a member, in words ("stopped"); empty: nothing is known against it.
  [[nodiscard]] std::string state_of(const Member& member) const;

  // Causes.
  /// Of an operation whose deadline has passed. Nothing: ranks of other hosts are asked first, and
  /// the deadline is when they must have answered. `waited`: whom it waits for.
  [[nodiscard]] std::optional<Status> time_out(Op& op, TimePoint now, std::span<const int> waited);
  /// A call may wait for its slot because a rank of our host does not pass the operation before it.
  /// Such a call has no line yet, and its time runs all the same.
  [[nodiscard]] std::optional<Status> check_queue(Group& group, TimePoint now) const;
  /// Of an operation that waits for a rank that is gone.
  [[nodiscard]] Status gone(const Op& op, int rank) const;

 private:
  struct Answer {
    TimePoint at{};
    std::uint64_t last_seq = 0;  ///< of the group that was asked about
  };
  bool ping_other_hosts(const Op& op);
  void observe(const Op& op, int rank, Blame& blame) const;

  const World& world_;
  ControlChannel& channel_;
  std::vector<Answer> answers_;  ///< the last one of each rank of the world
};

}  // namespace tutti::engine
