#include "engine/failure_propagation.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/received_errc.hpp"
#include "base/shown.hpp"
#include "transport/shm/doorbell.hpp"

// docs/reference/errors.md has the errors of all ranks; docs/design/shared-memory.md and
// docs/design/wire.md say how a break reaches them.
namespace tutti::engine {

namespace shm = transport::shm;
using transport::AbortFrame;

namespace {

constexpr std::size_t kMostAbortedEarly = 256;
constexpr std::size_t kMostReason = 4096;  // bytes of the text in an abort frame

}  // namespace

void FailurePropagation::break_group(Group& group, const Outcome& cause) noexcept {
  if (group.broken) return;
  try {
    spread(group, claim(group, cause));
  } catch (const std::bad_alloc&) {
    break_for_memory(group);
  }
}

void FailurePropagation::break_groups(std::span<Break> breaks) {
  for (Break& one : breaks) one.cause = claim(*one.group, one.cause);
  for (const Break& one : breaks) spread(*one.group, one.cause);
}

/// The first cause wins here too. To read the text of another rank's cause we need memory; without
/// it ours is reported.
void FailurePropagation::break_for_memory(Group& group) noexcept {
  if (group.broken) return;
  Outcome cause = group.no_memory;
  try {
    cause = claim(group, cause);
  } catch (const std::bad_alloc&) {  // our break word is set already
  }
  spread(group, cause);
}

void FailurePropagation::break_all_for_memory() noexcept {
  for (const auto& [id, group] : groups_) break_for_memory(*group);
}

void FailurePropagation::end(Group& group, const Outcome& cause) noexcept {
  if (group.broken) return;
  group.cause = cause;
  // release: pairs with the acquire of a thread that reads `broken` without the driver lock, and
  // then the cause.
  group.broken.store(true, std::memory_order_release);
  operations_.end_all(group);
}

/// Reports the cause that `claim` has chosen to all members, and ends the group here.
void FailurePropagation::spread(Group& group, const Outcome& cause) noexcept {
  tell_local(group);
  try_tell_remote(group, cause);
  end(group, cause);
}

/// Our break word of the group, or that of another rank of our host; 0: none.
std::uint64_t FailurePropagation::shown_break(Group& group) noexcept {
  const std::uint64_t ours = shm::break_of(regions_.control().break_word(group.slot));
  if (ours != 0) return ours;
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.block == nullptr && !find_block(group, member)) continue;
    const transport::RegionPeer& peer = regions_.peers[static_cast<std::size_t>(member.local)];
    const std::uint64_t word = shm::break_of(peer.control.break_word(member.slot));
    if (word != 0) return word;
  }
  return 0;
}

/// Sets our break word for `cause`, or for an earlier cause if there is one. Returns the cause that
/// it tells. `cause` may only follow from an earlier break: a rank has left
/// because of it. But a rank writes its break word before it reports a break or leaves, so the word
/// is visible here.
Outcome FailurePropagation::claim(Group& group, const Outcome& cause) {
  if (group.local_members.empty()) return cause;
  std::uint64_t word = shown_break(group);
  const bool first = word == 0;
  if (first) {
    shm::Note& note = group.block->note;
    const std::string_view text = base::cut(cause.message(), sizeof(note.text));
    note.length = static_cast<std::uint32_t>(text.size());
    std::memcpy(note.text, text.data(), note.length);
    word = shm::break_word(static_cast<std::uint8_t>(cause.code()), regions_.self,
                           cause.culprit().value_or(-1));
  }
  const std::uint64_t shown = shm::claim_break(regions_.control().break_word(group.slot), word);
  const bool ours = shown == 0;
  if (ours && first) return cause;
  return cause_of(group, ours ? word : shown);
}

/// Copies our break word into those of the other ranks of our host.
void FailurePropagation::tell_local(Group& group) noexcept {
  if (group.local_members.empty()) return;
  // relaxed: claim has read or written it.
  const std::uint64_t word =
      regions_.control().break_word(group.slot).load(std::memory_order_relaxed);
  for (const int rank : group.local_members) {
    Member& member = group.members[static_cast<std::size_t>(rank)];
    if (member.block == nullptr && !find_block(group, member)) continue;
    const transport::RegionPeer& peer = regions_.peers[static_cast<std::size_t>(member.local)];
    const transport::RegionControl& theirs = peer.control;
    if (shm::tell_break(theirs.words(), theirs.break_word(member.slot), word)) shm::wake(peer);
  }
}

void FailurePropagation::tell_remote(Group& group, const Outcome& cause) {
  const AbortFrame abort{group.id, static_cast<std::uint64_t>(cause.code()),
                         static_cast<std::uint64_t>(cause.culprit().value_or(-1) + 1)};
  std::string text(base::cut(cause.message(), kMostReason));
  for (const Member& member : group.members) {
    if (member.local < 0) channel_.control(member.global, encode(abort), text);
  }
}

/// The cause in a break word (see claim) and in the note of its reporter.
Outcome FailurePropagation::cause_of(Group& group, std::uint64_t word) const {
  const auto reporter = static_cast<int>(word >> 16 & 0xffff);
  std::string text = "group '" + group.name + "' was broken by another rank";
  for (Member& member : group.members) {
    if (member.local != reporter || (member.block == nullptr && !find_block(group, member)))
      continue;
    const shm::Note& note = member.block->note;
    if (note.length > 0)
      text = base::shown({note.text, std::min<std::size_t>(note.length, sizeof(note.text))});
  }
  Outcome cause(base::received_errc(static_cast<std::int64_t>(word & 0xff)), std::move(text));
  const auto culprit = static_cast<int>(word >> 32) - 1;
  if (culprit >= 0 && culprit < group.size) cause.with_culprit(culprit);
  return cause;
}

void FailurePropagation::check_breaks() noexcept {
  guarded(nullptr, [&] { take_breaks(); });
}

void FailurePropagation::take_breaks() {
  const transport::RegionControl& ours = regions_.control();
  breaks_seen_ = shm::breaks_of(ours.words());
  std::vector<Group*> alive;  // empty, without memory, while nothing is broken
  for (const auto& [id, group] : groups_) {
    if (!group->broken && shm::break_of(ours.break_word(group->slot)) != 0) alive.push_back(group);
  }
  for (Group* const group : alive) {
    const std::uint64_t word = shm::break_of(ours.break_word(group->slot));
    if (word == 0) continue;
    const Outcome cause = cause_of(*group, word);
    try_tell_remote(*group, cause);
    end(*group, cause);
  }
}

bool FailurePropagation::hear_of_break(Group& group) noexcept {
  if (group.broken) return true;
  const std::uint64_t word = shown_break(group);
  if (word == 0) return false;
  try {
    break_group(group, cause_of(group, word));
  } catch (const std::bad_alloc&) {
    break_for_memory(group);
  }
  return true;
}

bool FailurePropagation::has_given_up(Group& group, Member& member) {
  if (member.given_up || member.local < 0 || member.local == regions_.self) return member.given_up;
  if (member.block == nullptr && !find_block(group, member)) return false;
  // acquire: pairs with GroupTable::settle.
  if (!has_closed(*member.block)) return false;
  if (hear_of_break(group)) return false;  // it may have closed the group because that is broken
  // It had written its frames into its ring before it closed the group. One pass takes a part of a
  // full ring, and some 20 passes take the longest one.
  for (int pass = 0; pass < 64 && channel_.take_in(member.global); ++pass) {
  }
  member.given_up = true;
  return true;
}

void FailurePropagation::on_abort(Group* group, const AbortFrame& abort,
                                  std::span<const std::byte> reason) {
  if (group != nullptr && group->broken) return;
  Outcome cause(
      base::received_errc(static_cast<std::int64_t>(abort.code)),
      base::shown({reinterpret_cast<const char*>(reason.data()), reason.size()}, kMostReason));
  // The culprit is a rank of the group, whose size we may not know yet (break_if_aborted_early).
  const int most = group != nullptr ? group->size : world_size_;
  if (abort.culprit_plus_1 > 0 && abort.culprit_plus_1 <= static_cast<std::uint64_t>(most))
    cause.with_culprit(static_cast<int>(abort.culprit_plus_1) - 1);
  if (group != nullptr) {
    break_group(*group, cause);
    return;
  }
  aborted_early_.emplace_back(abort.group, std::move(cause));
  if (aborted_early_.size() > kMostAbortedEarly) aborted_early_.pop_front();
}

bool FailurePropagation::break_if_aborted_early(Group& group) {
  const auto early = std::find_if(aborted_early_.begin(), aborted_early_.end(),
                                  [&](const auto& entry) { return entry.first == group.id; });
  if (early == aborted_early_.end()) return false;
  Outcome cause = early->second;
  aborted_early_.erase(early);
  if (cause.culprit().value_or(-1) >= group.size)
    cause = Outcome(cause.code(), std::string(cause.message()));
  break_group(group, cause);
  return true;
}

/// If there is no memory for a frame, the next pass tries again.
void FailurePropagation::try_tell_remote(Group& group, const Outcome& cause) noexcept {
  try {
    group.untold = false;
    tell_remote(group, cause);
  } catch (const std::bad_alloc&) {
    group.untold = true;
    untold_ = true;
  }
}

void FailurePropagation::tell_the_rest() noexcept {
  untold_ = false;
  for (const auto& [id, group] : groups_) tell_the_rest(*group);
}

void FailurePropagation::tell_the_rest(Group& group) noexcept {
  if (group.untold) try_tell_remote(group, group.cause);
}

}  // namespace tutti::engine
