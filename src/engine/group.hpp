#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <tutti/backend.hpp>
#include <tutti/collective.hpp>

#include "engine/agreement_state.hpp"
#include "engine/clock.hpp"
#include "engine/elements.hpp"
#include "engine/plan_cache.hpp"
#include "engine/program_state.hpp"
#include "engine/queued.hpp"
#include "engine/region_channel.hpp"
#include "engine/streams.hpp"
#include "engine/timer_state.hpp"
#include "transport/region.hpp"

namespace tutti::engine {

struct Group;
class P2PMatcher;
struct P2PMatcherDeleter {
  void operator()(P2PMatcher* matcher) const noexcept;
};

/// One operation in flight: a slot of its group's window. A part for each component, which gets no
/// other. What a one-shot operation looks at while it waits stands in the first two cache lines.
struct alignas(64) Op {
  enum class State : std::uint8_t { free, running, done };
  State state = State::free;
  bool failed = false;
  bool detailed = false;  ///< has some of what comes from Details
  bool asynchronous = false;
  AgreementState agreement;
  std::uint64_t seq = 0;
  Group* group = nullptr;
  const BoundPlan* plan = nullptr;
  RegionState region;
  ProgramState program;  ///< its first 16 bytes
  StreamState streams;
  TimerState timer;
  std::uint64_t fingerprint = 0;
  Collective call;
  // What the call has beside its two views.
  std::vector<TensorView> inputs;  ///< a view per rank's block; empty: call.input
  std::vector<TensorView> outputs;
  Pieces input_pieces;  ///< several tensors as one; empty: call.input
  Pieces output_pieces;
  std::vector<std::byte> scaled;  ///< PREMUL_SUM: the input times its factor
  std::vector<Callback> callbacks;
};

/// A rank of a group as the engine sees it.
struct Member {
  int global = 0;
  int local = -1;  ///< index among the ranks of our host; -1: another host
  const transport::shm::GroupBlock* block = nullptr;  ///< its lines, once found; local ranks only
  int slot = -1;  ///< its slot number for this group, for break words
  /// It is known to have given the group up, and all that it had sent in it has come.
  bool given_up = false;
};

/// `done` of a rank for which the group has ended, since it has destroyed it or heard that it is
/// broken: it reads nobody's lines any more ...
inline constexpr std::uint64_t kClosed = ~std::uint64_t{0} - 1;
/// ... and knows where each member of its host has its lines, so it will also see when a slot
/// serves another group. Until all are there nobody uses its slot anew: a member that could not be
/// found any more would look like one that has not made the group yet.
inline constexpr std::uint64_t kSettled = ~std::uint64_t{0};

/// Has the group ended for the rank whose lines these are? What it did in it lies before that, and
/// so does the break word, if it was broken.
[[nodiscard]] inline bool has_closed(const transport::shm::GroupBlock& block) noexcept {
  // acquire: pairs with GroupTable::settle.
  return block.done.value.load(std::memory_order_acquire) >= kClosed;
}

/// One group on one rank. Owned by the engine; touched under the driver lock only, except where
/// said.
struct Group {
  std::uint64_t id = 0;
  std::string name;
  int rank = 0;
  int size = 1;
  int slot = 0;  ///< ours
  std::vector<Member> members;
  std::vector<int> local_members;  ///< ranks (of the group) on our host, without ourselves
  transport::Regions* regions = nullptr;
  transport::shm::GroupBlock* block = nullptr;
  std::array<Op, transport::shm::kWindow> window;
  std::uint64_t submitted = 0;    ///< number of the last call
  std::uint64_t started = 0;      ///< last one that has a slot
  std::uint64_t done_upto = 0;    ///< every operation up to this one has ended
  std::uint64_t peers_done = 0;   ///< least `done` of all local members, as last seen
  std::uint64_t chain = 0;        ///< fingerprint of the last call that got a slot
  std::deque<Queued> queue;       ///< calls that wait for a slot
  std::uint64_t waiting_seq = 0;  ///< number of the first of them, since `waiting_since`
  TimePoint waiting_since{};
  int waiting_for = -1;     ///< the rank of our host that has not passed the one before it ...
  TimePoint begun_since{};  ///< ... and since when it is seen to have begun that one itself
  std::vector<std::pair<std::uint64_t, Callback>> queued_callbacks;
  std::unique_ptr<PlanCache> plans;
  std::chrono::nanoseconds timeout{};
  bool strict = false;
  [[nodiscard]] bool one_host() const noexcept {
    return static_cast<int>(local_members.size()) + 1 == size;
  }
  std::atomic<bool> broken{false};  ///< read without the driver lock
  Status cause;
  Status no_memory;     ///< the cause where memory lacks, made while there is some
  bool untold = false;  ///< other hosts are still to be told of the cause
  std::unique_ptr<P2PMatcher, P2PMatcherDeleter>
      matcher;  ///< point to point; empty until it is used

  [[nodiscard]] Member& member(int of) noexcept { return members[static_cast<std::size_t>(of)]; }
  [[nodiscard]] const Member& member(int of) const noexcept {
    return members[static_cast<std::size_t>(of)];
  }
  /// Of a rank of the world; -1: it is no member.
  [[nodiscard]] int rank_of(int global) const noexcept;
  [[nodiscard]] Op& op_at(std::uint64_t seq) noexcept {
    return window[seq % transport::shm::kWindow];
  }
};

/// Of the operations of a group. Counters hold the number beside their count, and never go back.
inline constexpr std::uint64_t kLastOperation =
    (std::uint64_t{1} << (64 - transport::shm::kCounterShift)) - 1;

/// Finds the lines of a member on our host. False while it has not made the group yet.
[[nodiscard]] bool find_block(const Group& group, Member& member) noexcept;
/// Have all members of the group that share our host passed `seq`?
[[nodiscard]] bool passed_by_all(Group& group, std::uint64_t seq);
/// ... or will never read what we staged for it? (See Staging.)
[[nodiscard]] bool is_read_by_all(Group& group, std::uint64_t seq);
/// A member on our host has died or left: it reads nobody's lines any more, and its own stay as
/// they are.
[[nodiscard]] bool is_gone(const Group& group, const Member& member) noexcept;

}  // namespace tutti::engine
