#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <tutti/backend/backend.hpp>
#include <tutti/backend/collective.hpp>
#include <tutti/error.hpp>

#include "engine/group_table.hpp"
#include "engine/p2p_shared.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

class P2PMatcher;

/// Point to point of all groups of this rank: finds the matcher of a frame or a ticket, bounds
/// eager messages, and keeps those of groups that this rank has not made yet. docs/design/wire.md
/// has the rules.
///
/// Threads: under the driver lock.
class P2PTable {
 public:
  /// All must stay as long as this does.
  P2PTable(const P2PShared& shared, const GroupTable& groups);

  /// kRefusedTicket: the group is broken.
  std::uint64_t submit(Group& group, const Collective& call,
                       std::optional<std::uint64_t> record = std::nullopt) noexcept;
  /// True if nothing else runs, and P2PMatcher::may_take_short.
  [[nodiscard]] bool may_take_short(const Group& group, const Collective& call) const noexcept;
  [[nodiscard]] static bool is_done(const Group& group, std::uint64_t ticket) noexcept;
  /// False: if it is done, it has succeeded. True: see `outcome`.
  [[nodiscard]] static bool may_have_failed(const Group& group, std::uint64_t ticket) noexcept;
  [[nodiscard]] static std::optional<Outcome> outcome(const Group& group,
                                                      std::uint64_t ticket) noexcept;
  /// Notes a callback for a send, recv or probe that runs.
  static void on_done(Group& group, std::uint64_t ticket, Callback callback);
  /// recv: which message it was, once done.
  [[nodiscard]] static Received received(const Group& group, std::uint64_t ticket) noexcept;
  /// A probe that is done: its message; absent: it has found none.
  [[nodiscard]] static std::optional<ProbedMessage> probed(const Group& group,
                                                           std::uint64_t ticket) noexcept;
  /// True for a probe whose message no recv has taken.
  [[nodiscard]] static bool holds_message(const Group& group, std::uint64_t ticket) noexcept;
  /// Cancels a recv that no message has matched. False: it is too late, or it is no such recv.
  bool cancel(Group& group, std::uint64_t ticket) noexcept;
  /// The send, recv or probe for a log line.
  [[nodiscard]] static std::string describe(const Group& group, std::uint64_t ticket);
  /// Gives the ticket up. Returns what `received` returns.
  Received release(Group& group, std::uint64_t ticket) noexcept;

  /// Sends what may be sent. True if something was.
  bool push() { return !matchers_.empty() && push_all(); }
  /// Describes a send or recv that runs, for error texts; empty: none runs.
  [[nodiscard]] std::string running_text();
  /// Checks deadlines, and whether ranks have left.
  void tick(TimePoint now);
  [[nodiscard]] TimePoint next_deadline() const noexcept;
  /// Sends or recvs run.
  [[nodiscard]] bool busy() const noexcept { return shared_.running > 0; }
  /// The rank of the world from which the message must come, if this is a recv or probe and nothing
  /// else runs; else -1.
  [[nodiscard]] int only_sender(const Group& group, std::uint64_t ticket) const noexcept;
  [[nodiscard]] bool has_large() const noexcept { return shared_.large > 0; }
  /// The group is being removed.
  void forget(Group& group) noexcept;

  /// The payload of a frame goes here; empty: the frame is refused.
  [[nodiscard]] std::span<std::byte> place_of(int peer, const transport::FrameHeader& header);
  void on_frame(int peer, const transport::FrameHeader& header);
  /// Takes a short message. False: it must go the way of a frame.
  bool on_short(int peer, const transport::ShortHead& head, const std::byte* payload) noexcept;
  /// Takes the messages that came for a group before it was made here.
  void adopt_early(Group& group);

 private:
  [[nodiscard]] P2PMatcher& matcher_of(Group& group);
  bool push_all();

  P2PShared shared_;
  MessageChannel& channel_;
  const GroupTable& groups_;
  std::vector<P2PMatcher*> matchers_;  ///< of the groups that have one
  Group* last_ = nullptr;              ///< the group of the last short message; it has a matcher
};

}  // namespace tutti::engine
