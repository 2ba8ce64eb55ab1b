#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "engine/clock.hpp"
#include "engine/operation.hpp"
#include "engine/operation_window.hpp"
#include "engine/plan_cache.hpp"
#include "engine/stall_timer.hpp"
#include "engine/timer_state.hpp"
#include "record/layout.hpp"
#include "transport/region.hpp"

namespace tutti::engine {

/// The last answer (pong) of a rank about a group.
struct RankAnswer {
  TimePoint at{};              ///< unset: it has never answered
  std::uint64_t last_seq = 0;  ///< of its last call in the group
  std::uint64_t passed = 0;    ///< it is through with all up to this one
  TimePoint told_doing{};      ///< when it told last what it is doing
  std::string doing;           ///< in words; empty: it is in no call
};

struct Group;
class P2PMatcher;
struct P2PMatcherDeleter {
  void operator()(P2PMatcher* matcher) const noexcept;
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
/// broken: it reads nobody's lines any more.
inline constexpr std::uint64_t kClosed = ~std::uint64_t{0} - 1;
/// `done` of a rank for which the group has ended, and which has found the lines of each member of
/// its host. Only when all ranks have settled a slot serves another group: a member that could not
/// be found any more would look like one that has not made the group yet.
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
  OperationWindow window{*this};
  QueueTimer queue_timer;
  StallTimer stall;                 ///< of the first operation that has not ended here
  std::vector<RankAnswer> answers;  ///< by rank; empty: nobody has ever answered
  std::uint16_t record_place = record::kNoGroup;  ///< in the flight recorder
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
  /// Of a rank; unset times if it has never answered.
  [[nodiscard]] const RankAnswer& answer(int of) const noexcept {
    static const RankAnswer kNone;
    return answers.empty() ? kNone : answers[static_cast<std::size_t>(of)];
  }
  /// Of a rank of the world; -1: it is no member.
  [[nodiscard]] int rank_of(int global) const noexcept;
};

/// Finds the lines of a member on our host. False while it has not made the group yet.
[[nodiscard]] bool find_block(const Group& group, Member& member) noexcept;
/// The last call in the group of the rank whose lines these are.
[[nodiscard]] std::uint64_t last_call_of(const transport::shm::GroupBlock& block) noexcept;
/// A member on our host has died or left: it reads nobody's lines any more, and its own stay as
/// they are.
[[nodiscard]] bool is_gone(const Group& group, const Member& member) noexcept;

}  // namespace tutti::engine
