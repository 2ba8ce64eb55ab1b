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

/// Finds the rank that is late, gone or stopped: it asks ranks of other hosts
/// (pings), reads the lines and the state of the processes of this one, and gives the cause for
/// which a group is to break. It breaks nothing itself, and is told what a call waits for.
///
/// Threads: none; under the driver lock.
class FailureDetector {
 public:
  /// Both must stay as long as this does.
  FailureDetector(const World& world, ControlChannel& channel) noexcept
      : world_(world), channel_(channel) {}

  // Pings. Ranks of our host get none: one that computes may have nobody who would answer, and its
  // lines and the state of its process tell more.
  /// Tells a rank of another host in which operation we wait for it.
  void ping(const Op& op, int rank);
  /// The same for sends and recvs, which have no number that both sides know.
  void ping(const Group& group, int rank);
  /// Asks a rank, of whatever host, what it is doing (PongFrame::tells_doing).
  void ask_doing(const Group& group, int rank);
  /// Is it time to tell those that the operation waits for what it is? Then the next time is later.
  [[nodiscard]] static bool is_ping_due(Op& op, TimePoint now) noexcept;
  /// Before its deadline an operation connects us with all whose answers may be wanted then: an
  /// answer takes less time than getting to know each other.
  void ping_unconnected(Op& op, TimePoint now);
  /// The answer of a rank of the group. `doing`: what it has told, if it tells.
  void on_pong(Group& group, int rank, const transport::PongFrame& pong,
               std::span<const std::byte> doing);
  /// Is the rank through with the operation of that number, or has it ended, or destroyed the
  /// group, in peace? Then its process says nothing about why others wait.
  [[nodiscard]] bool is_through(Group& group, int rank, std::uint64_t seq) const noexcept;

  /// Of the process of a member, in words ("stopped"); empty: nothing is known against it.
  [[nodiscard]] std::string state_of(const Member& member) const;

  // Observations.
  /// How far a rank has come in an operation; one of another host must have answered since `asked`.
  /// False: nothing is told of one that is through, and that `blame` does not wait for.
  bool observe(const Op& op, int rank, TimePoint asked, Blame& blame) const;
  /// Of the first call that waits for its slot: the ranks of our host that have not passed what
  /// lies in it.
  [[nodiscard]] Blame observe_queue(Group& group) const;

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
  bool ping_other_hosts(const Op& op);

  const World& world_;
  ControlChannel& channel_;
};

}  // namespace tutti::engine
