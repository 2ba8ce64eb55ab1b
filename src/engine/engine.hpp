#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <tutti/collective.hpp>
#include <tutti/error.hpp>

#include "engine/agreement.hpp"
#include "engine/completion_queue.hpp"
#include "engine/failure_detector.hpp"
#include "engine/failure_propagation.hpp"
#include "engine/group.hpp"
#include "engine/group_table.hpp"
#include "engine/interpreter.hpp"
#include "engine/loss_inquiry.hpp"
#include "engine/message_channel.hpp"
#include "engine/p2p_table.hpp"
#include "engine/region_channel.hpp"
#include "engine/stall_reporter.hpp"
#include "engine/world.hpp"
#include "transport/frames.hpp"
#include "transport/region.hpp"

namespace tutti::engine {

/// Runs the operations of all groups of one rank: a state machine without I/O of its own. It is
/// told what happened and says what to send; real transports and a simulated network drive it
/// alike.
///
/// Threads: none of its own. Every method under the driver lock (see native::Driver).
class Engine final : public transport::Sink, private FailurePropagation::Operations {
 public:
  explicit Engine(World world);
  ~Engine() override;

  // Groups.
  [[nodiscard]] Result<Group*> add_group(const GroupSpec& spec);
  /// Ends whatever runs (it fails with `aborted`) and forgets the group.
  void remove_group(Group& group) noexcept;

  // Operations.
  std::uint64_t submit(Group& group, const Collective& call) noexcept;
  /// Moves everything that can move. True if something did.
  bool progress() noexcept;
  /// As progress, for one operation only: the spin of a caller that waits for it.
  bool progress_one(Group& group, std::uint64_t ticket) noexcept;
  [[nodiscard]] bool is_done(Group& group, std::uint64_t ticket) noexcept;
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
  /// A recv that is done: the rank of the group that sent. Else -1.
  [[nodiscard]] static int source(const Group& group, std::uint64_t ticket) noexcept {
    return is_p2p(ticket) ? P2PTable::source(group, ticket) : -1;
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
  /// Gives the ticket up. Returns what `source` returns.
  int release(Group& group, std::uint64_t ticket) noexcept;
  /// Callbacks to make, taken once the driver lock is dropped. Empty too while there is no memory
  /// to take them.
  [[nodiscard]] std::vector<Finished> take_finished() noexcept { return completions_.take(); }

  // The world.
  /// Checks deadlines, peers that have left, and break words. Call it every 20 ms or so.
  void tick() noexcept;
  /// The earliest deadline of anything that runs.
  [[nodiscard]] TimePoint next_deadline() const noexcept;
  /// A process of our host has died.
  void local_peer_died(int local_index) noexcept;
  /// Breaks the group here and reports it to the other members. The first cause wins: one that a
  /// rank of our host has published before replaces `cause`.
  void break_group(Group& group, const Outcome& cause) noexcept;
  /// Checks whether a rank of our host broke the group before we had made it, when it could not
  /// write into our page. True: it is broken.
  bool hear_of_break(Group& group) noexcept;
  [[nodiscard]] bool has_finished() const noexcept { return completions_.size() > 0; }
  [[nodiscard]] std::size_t finished() const noexcept { return completions_.size(); }
  [[nodiscard]] const std::vector<transport::Transport*>& transports() const noexcept {
    return transports_;
  }
  /// Operations run or wait for a slot, or sends or recvs run.
  [[nodiscard]] bool busy() const noexcept {
    return !active_.empty() || queued_ > 0 || p2p_.busy();
  }
  /// Control frames or data still wait to be handed to a transport.
  [[nodiscard]] bool has_unsent() const noexcept;
  [[nodiscard]] const World& world() const noexcept { return world_; }
  [[nodiscard]] const StagingPolicy& staging_policy() const noexcept { return regions_.policy(); }

  // transport::Sink
  std::span<std::byte> on_header(int peer, const transport::FrameHeader& header) noexcept override;
  void on_frame(int peer, const transport::FrameHeader& header) noexcept override;
  void on_sent(int peer, std::uint64_t token) noexcept override;
  void on_lost(int peer, const Outcome& why) noexcept override;

 private:
  // failures.cpp
  /// Runs what asks for memory. Where there is none, `group` is broken (nullptr: all groups are,
  /// since each may have lost something), and the result is that of a default constructor.
  template <class Action>
  auto guarded(Group* group, Action&& action) noexcept {
    try {
      return action();
    } catch (const std::bad_alloc&) {
      break_for_memory(group);
    }
    if constexpr (!std::is_void_v<decltype(action())>) return decltype(action()){};
  }
  void break_for_memory(Group* group) noexcept;
  // engine.cpp
  bool pass();
  void look_at_all();
  [[nodiscard]] bool uses_messages() const noexcept {
    return channel_.operations() > 0 || p2p_.busy();
  }
  void start(Group& group, const Collective& call, std::uint64_t record);
  [[nodiscard]] bool take_memory(Op& op);
  bool advance(Op& op);
  static void take_details(Op& op, const Details* details);
  bool start_queued(Group& group);
  void finish(Op& op) noexcept;
  void end(Op& op) noexcept;
  void release_memory(Op& op) noexcept;
  void call_back(Op& op, const Outcome& status) noexcept;
  // messages.cpp
  void deliver_held(Op& op, int rank);
  void report(Op& op, const Interpreter::Finding& finding);
  [[nodiscard]] std::span<std::byte> place_of_frame(int peer, const transport::FrameHeader& header);
  [[nodiscard]] std::span<std::byte> place_of_data(int peer, const transport::FrameHeader& header);
  void take_frame(int peer, const transport::FrameHeader& header);
  void keep_data(int peer, const transport::FrameHeader& header);
  void on_control(int peer, const transport::FrameHeader& header,
                  std::span<const std::byte> payload);
  // failures.cpp
  void end_all(Group& group) noexcept override;
  void break_for(Group& group, const std::optional<Outcome>& cause) noexcept;
  void break_if_lost_already(Group& group);
  void lost(int peer, const Outcome& why);
  void report_loss(const LossInquiry::Loss& loss);
  [[nodiscard]] Outcome loss_of(Group& group, int rank, const Outcome& why);
  // ticks.cpp
  void check_left(Op& op);
  void ping_blocking(Op& op, TimePoint now);
  void check_calls(Op& op);
  static void note_pace(Op& op, TimePoint now) noexcept;
  [[nodiscard]] static MovedBytes moved_in(Group& group) noexcept;
  void note_in_record();
  void look_for_stalls(TimePoint now);
  [[nodiscard]] std::string running_text();

  World world_;
  RegionChannel regions_;
  GroupTable groups_;
  std::vector<Op*> active_;  ///< operations that run, in the order of their start
  // Used by `tick` and its parts only, and kept between ticks: a tick must not need memory.
  std::vector<Op*> ticked_;   ///< the copy of active_ that a tick iterates over
  std::vector<int> waiting_;  ///< the ranks that one operation is blocked on
  std::vector<transport::Transport*> transports_;  ///< each once
  MessageChannel channel_;
  FailurePropagation propagation_;
  FailureDetector detector_;
  LossInquiry inquiry_;
  StallReporter stalls_;
  Agreement agreement_;
  Interpreter interpreter_;
  CompletionQueue completions_;
  P2PTable p2p_;
  int queued_ = 0;  ///< calls that wait for a slot, over all groups
};

}  // namespace tutti::engine
