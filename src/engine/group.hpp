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
#include "transport/shm/words.hpp"

namespace tutti::engine {

/// The last answer (pong) of a rank about a group.
struct RankAnswer {
  TimePoint at{};              ///< unset: it has never answered
  std::uint64_t last_seq = 0;  ///< of its last call in the group
  std::uint64_t passed = 0;    ///< every operation up to this one has ended there
  MovedBytes moved{};          ///< in the operation after that
  TimePoint asked_doing{};     ///< when it was last asked what it is doing
  TimePoint told_doing{};      ///< when it last said what it is doing
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
  /// It has destroyed the group, and all that it had sent in it has come.
  bool given_up = false;
};

/// The value of `done` (GroupBlock) once the group has ended for a rank: the rank has destroyed it
/// or heard that it is broken, and reads no lines of other ranks any more.
inline constexpr std::uint64_t kClosed = ~std::uint64_t{0} - 1;
/// The value of `done` once the rank has also found the lines of each member of its host
/// (GroupTable::settle). A slot is used again only after all members have settled. If it were used
/// earlier, a member that looks for the old group would take the slot's rank for one that has not
/// made the group yet.
inline constexpr std::uint64_t kSettled = ~std::uint64_t{0};
/// Every operation up to this number has ended for the rank whose lines these are.
[[nodiscard]] inline std::uint64_t passed_by(const transport::shm::GroupBlock& block) noexcept {
  return transport::shm::number_of(transport::shm::value_of(block.done));
}

/// True if the group has ended for the rank whose lines these are. All that it did in the group was
/// written before that, also the break word if the group was broken.
[[nodiscard]] inline bool has_closed(const transport::shm::GroupBlock& block) noexcept {
  return transport::shm::value_of(block.done) >= kClosed;
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
  std::vector<RankAnswer> answers;  ///< by rank; empty: nothing is noted yet
  std::uint16_t record_place = record::kNoGroup;  ///< in the flight recorder
  std::unique_ptr<PlanCache> plans;
  std::chrono::nanoseconds timeout{};
  bool strict = false;
  [[nodiscard]] bool one_host() const noexcept {
    return static_cast<int>(local_members.size()) + 1 == size;
  }
  std::atomic<bool> broken{false};  ///< read without the driver lock
  Outcome cause;
  Outcome no_memory;    ///< the cause if there is no memory; it is made in advance
  bool untold = false;  ///< abort frames to other hosts are still to be sent
  std::unique_ptr<P2PMatcher, P2PMatcherDeleter>
      matcher;  ///< point to point; empty until it is used

  [[nodiscard]] Member& member(int of) noexcept { return members[static_cast<std::size_t>(of)]; }
  [[nodiscard]] const Member& member(int of) const noexcept {
    return members[static_cast<std::size_t>(of)];
  }
  /// The last answer of a rank; its times are unset if it has never answered.
  [[nodiscard]] const RankAnswer& answer(int of) const noexcept {
    static const RankAnswer kNone;
    return answers.empty() ? kNone : answers[static_cast<std::size_t>(of)];
  }
  /// The same, to note something there.
  [[nodiscard]] RankAnswer& answer_of(int of) {
    if (answers.empty()) answers.resize(static_cast<std::size_t>(size));
    return answers[static_cast<std::size_t>(of)];
  }
  /// The rank in this group of a rank of the world; -1: it is no member.
  [[nodiscard]] int rank_of(int global) const noexcept;
};

/// Finds the lines of a member on our host. False while it has not made the group yet.
[[nodiscard]] bool find_block(const Group& group, Member& member) noexcept;
/// The number of the last call in the group of the rank whose lines these are.
[[nodiscard]] std::uint64_t last_call_of(const transport::shm::GroupBlock& block) noexcept;
/// True if a member on our host has died or left: it reads no lines any more, and does not change
/// its own.
[[nodiscard]] bool is_gone(const Group& group, const Member& member) noexcept;

}  // namespace tutti::engine
