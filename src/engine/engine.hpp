#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <tutti/backend/collective.hpp>
#include <tutti/error.hpp>

#include "engine/agreement.hpp"
#include "engine/completion_queue.hpp"
#include "engine/failure_detector.hpp"
#include "engine/failure_propagation.hpp"
#include "engine/frame_dispatcher.hpp"
#include "engine/group.hpp"
#include "engine/group_table.hpp"
#include "engine/lost_ranks.hpp"
#include "engine/message_channel.hpp"
#include "engine/operation_runner.hpp"
#include "engine/p2p_table.hpp"
#include "engine/watchdog.hpp"
#include "engine/world.hpp"

namespace tutti::engine {

/// Owns the parts that run the groups of one rank, and orders what they do in a call, a pass and a
/// tick. It is a state machine without I/O of its own: real transports and a simulated network
/// drive it alike.
///
/// Threads: none of its own. Every method under the driver lock (see native::Driver).
class Engine final {
 public:
  explicit Engine(World world);

  // Groups.
  [[nodiscard]] Result<Group*> add_group(const GroupSpec& spec);
  /// Ends whatever runs (it fails with `aborted`) and forgets the group.
  void remove_group(Group& group) noexcept;

  // Operations.
  /// `record`: the number of a recv in the flight recorder, if it has one already.
  std::uint64_t submit(Group& group, const Collective& call,
                       std::optional<std::uint64_t> record = std::nullopt) noexcept;
  /// A recv whose caller waits may take a short message directly: its number in the flight
  /// recorder. Absent: submit it.
  [[nodiscard]] std::optional<std::uint64_t> begin_short_recv(Group& group,
                                                              const Collective& call) noexcept;
  /// A look for that message, after begin_short_recv and before anything else. Unless it is taken,
  /// submit the recv with `record`.
  [[nodiscard]] transport::ShortLook take_short(Group& group, const Collective& call,
                                                std::uint64_t record) noexcept;
  /// Moves everything that can move. True if something did.
  bool progress() noexcept;
  /// As progress, for one operation only: the spin of a caller that waits for it.
  bool progress_one(Group& group, std::uint64_t ticket) noexcept;
  [[nodiscard]] bool is_done(Group& group, std::uint64_t ticket) noexcept;
  /// A collective that has just been submitted is done already, well.
  [[nodiscard]] static bool has_succeeded(Group& group, std::uint64_t ticket) noexcept {
    const Op& op = group.window.at(ticket);
    return op.seq == ticket && op.state == Op::State::done && !op.failed;
  }
  /// False: if it is done, it has succeeded. True: see `outcome`.
  [[nodiscard]] bool may_have_failed(Group& group, std::uint64_t ticket) noexcept {
    if (is_p2p(ticket)) [[unlikely]]
      return P2PTable::may_have_failed(group, ticket);
    const Op& op = group.window.at(ticket);
    return op.seq == ticket ? op.failed : op.seq < ticket;
  }
  [[nodiscard]] std::optional<Outcome> outcome(Group& group, std::uint64_t ticket) noexcept;
  /// False: there is no memory to note it, the operation has ended, and the caller calls back.
  bool on_done(Group& group, std::uint64_t ticket, Callback callback) noexcept;
  /// A recv that is done: which message it was.
  [[nodiscard]] static Received received(const Group& group, std::uint64_t ticket) noexcept {
    return is_p2p(ticket) ? P2PTable::received(group, ticket) : Received();
  }
  /// A probe that is done: its message; absent: it has found none.
  [[nodiscard]] static std::optional<ProbedMessage> probed(const Group& group,
                                                           std::uint64_t ticket) noexcept {
    return is_p2p(ticket) ? P2PTable::probed(group, ticket) : std::nullopt;
  }
  /// A probe whose message no recv has taken: `release` may end what waits for it.
  [[nodiscard]] static bool holds_message(const Group& group, std::uint64_t ticket) noexcept {
    return P2PTable::holds_message(group, ticket);
  }
  /// Cancels a recv that no message has matched. False: it is too late, or it is no such recv.
  bool cancel(Group& group, std::uint64_t ticket) noexcept {
    return is_p2p(ticket) && p2p_.cancel(group, ticket);
  }
  /// The operation for a log line.
  [[nodiscard]] static std::string describe(Group& group, std::uint64_t ticket);
  /// Gives the ticket up. Returns what `received` returns.
  Received release(Group& group, std::uint64_t ticket) noexcept {
    return is_p2p(ticket) ? p2p_.release(group, ticket) : Received();
  }
  /// Callbacks to make, taken once the driver lock is dropped. Empty too while there is no memory
  /// to take them.
  [[nodiscard]] std::vector<Finished> take_finished() noexcept { return completions_.take(); }

  // The world.
  /// Checks deadlines, peers that have left, and break words. Call it every 20 ms or so.
  void tick() noexcept;
  /// The earliest deadline of anything that runs.
  [[nodiscard]] TimePoint next_deadline() const noexcept { return watchdog_.next_deadline(); }
  /// A process of our host has died.
  void local_peer_died(int local_index) noexcept;
  /// Breaks the group here and reports it to the other members. The first cause wins: one that a
  /// rank of our host has published before replaces `cause`.
  void break_group(Group& group, const Outcome& cause) noexcept {
    propagation_.break_group(group, cause);
  }
  /// Checks whether a rank of our host broke the group before we had made it, when it could not
  /// set our break word. True: it is broken.
  bool hear_of_break(Group& group) noexcept { return propagation_.hear_of_break(group); }
  [[nodiscard]] bool has_finished() const noexcept { return completions_.size() > 0; }
  [[nodiscard]] std::size_t finished() const noexcept { return completions_.size(); }
  [[nodiscard]] const std::vector<transport::Transport*>& transports() const noexcept {
    return frames_.transports();
  }
  /// Operations run or wait for a slot, or sends or recvs run.
  [[nodiscard]] bool busy() const noexcept { return operations_.busy() || p2p_.busy(); }
  /// Some of it is to go on at once, though no caller waits: it is large, or somebody is to be
  /// called back.
  [[nodiscard]] bool has_urgent() const noexcept {
    return completions_.awaits_any() || p2p_.has_large() || operations_.has_large();
  }
  /// Control frames or data still wait to be handed to a transport.
  [[nodiscard]] bool has_unsent() const noexcept { return channel_.has_unsent(); }
  [[nodiscard]] const World& world() const noexcept { return world_; }
  [[nodiscard]] const StagingPolicy& staging_policy() const noexcept {
    return operations_.staging_policy();
  }

 private:
  bool pass();

  World world_;
  MessageChannel channel_;
  FailureDetector detector_;
  Agreement agreement_;
  CompletionQueue completions_;
  // These refer to each other, and use each other only once all are made.
  OperationRunner operations_;
  GroupTable groups_;
  FailurePropagation propagation_;
  LostRanks lost_;
  Watchdog watchdog_;
  P2PTable p2p_;
  FrameDispatcher frames_;
};

}  // namespace tutti::engine
