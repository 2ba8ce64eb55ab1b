#include "engine/region_channel.hpp"

#include <algorithm>
#include <atomic>

#include "engine/group.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/fetch.hpp"
#include "transport/shm/words.hpp"

namespace tutti::engine {

namespace shm = transport::shm;
using transport::shm::CacheDistance;

namespace {

/// How much of its staging ring a rank uses. Lines that the core of a reader still has are
/// expensive to write, and those that have left the cache which all cores share are expensive for
/// both. So the ranks of a host together take no more than two whole rings, and none takes more
/// than four times the cache of a core (measured with 512 KiB: all_reduce of 2 MiB on 2 ranks 303
/// us with 4 MiB, 206 us with 2 MiB; other operations 0-25 % less, but for a broadcast up to 1 MiB,
/// 7-13 % more).
constexpr std::size_t staging_cycle(std::size_t ranks, std::size_t core_cache) noexcept {
  constexpr std::size_t kLeast = 512 * 1024;
  const std::size_t share = 2 * shm::kStagingBytes / std::max<std::size_t>(ranks, 2);
  return std::max(std::min(share, 4 * core_cache), kLeast);
}

std::uint64_t counter_value(const RegionState& state, std::int64_t value) noexcept {
  return state.seq << shm::kCounterShift | static_cast<std::uint64_t>(value);
}

bool is_known(const Group& group, Member& member) noexcept {
  return member.block != nullptr || find_block(group, member);
}

/// True if it is a range of the staging ring of an arena, or of what lies behind it.
bool lies_in_staging(std::uint64_t offset, std::size_t bytes) noexcept {
  if (offset < shm::kStagingOffset || offset > shm::kArenaBytes ||
      shm::kArenaBytes - offset < bytes)
    return false;
  return offset >= shm::kHeapOffset || offset + bytes <= shm::kStagingOffset + shm::kStagingBytes;
}

std::size_t bytes_of_input(const BoundPlan& plan, int rank) noexcept {
  return plan::input_elements(plan.kind, rank, plan.binding) * plan.binding.element;
}

/// Where element 0 of the operation would lie in this rank's input.
const std::byte* before_input(const BoundPlan& plan, int rank, const std::byte* input) noexcept {
  const plan::Binding& b = plan.binding;
  return input - plan::first_element(plan.kind, plan::Space::input, rank, b) * b.element;
}

bool has_reached(const shm::Counter& counter, std::uint64_t target) noexcept {
  return shm::value_of(counter) >= target;
}

}  // namespace

RegionChannel::RegionChannel(const transport::Regions& regions, const Options& options)
    : regions_(regions),
      publish_fence_(options.publish_fence),
      now_(options.now),
      staging_(
          regions.arena,
          [](Group& group, std::uint64_t seq) { return group.window.is_read_by_all(seq); },
          options.populate, staging_cycle(regions.peers.size(), options.core_cache)),
      policy_(regions, options.cpus) {}

void RegionChannel::use_line_as_stage(Group& group, RegionState& state) const noexcept {
  state.stage = group.block->line(state.seq).payload.data;
  state.stage_of[static_cast<std::size_t>(group.rank)] = state.stage;
}

void RegionChannel::use_no_stage(const Group& group, RegionState& state) const noexcept {
  state.stage_offset = 0;
  state.stage = nullptr;
  state.stage_of[static_cast<std::size_t>(group.rank)] = nullptr;
}

bool RegionChannel::use_input_as_stage(const Group& group, RegionState& state,
                                       const BoundPlan& plan,
                                       const TensorView& input) const noexcept {
  // As numbers: the input may be anywhere.
  const auto begin = reinterpret_cast<std::uintptr_t>(regions_.arena) + shm::kUserOffset;
  const auto at = reinterpret_cast<std::uintptr_t>(input.data());
  if (at < begin || at - begin >= regions_.user_bytes) [[likely]]
    return false;
  state.lends = true;
  state.stage_offset = shm::kUserOffset + (at - begin);
  state.stage = nullptr;
  state.input_of(group.rank) = before_input(plan, group.rank, regions_.arena + state.stage_offset);
  return true;
}

Outcome RegionChannel::take_stage(Group& group, RegionState& state, std::size_t bytes) {
  use_no_stage(group, state);
  if (bytes > 0) {
    Result<std::size_t> taken = staging_.take(group, state.seq, bytes);
    if (!taken) return taken.status();
    state.stage_offset = *taken;
    state.stage = regions_.arena + state.stage_offset;
  }
  state.stage_of[static_cast<std::size_t>(group.rank)] = state.stage;
  return {};
}

void RegionChannel::ring_all(const Group& group) noexcept {
  shm::fence_if_needed(publish_fence_);
  for (const int rank : group.local_members)
    shm::wake_if_parked(regions_.peers[static_cast<std::size_t>(group.member(rank).local)]);
}

void RegionChannel::publish(const Group& group, const RegionState& state) noexcept {
  shm::Arrival& line = group.block->line(state.seq);
  shm::publish_line(line, state.fingerprint, state.seq, [&] {
    if (state.in_line) return;
    line.payload.exposed.stage_offset =
        state.stage_offset | (state.lends ? shm::kOfInput : std::uint64_t{0});
    line.payload.exposed.stage_bytes = state.stage_bytes;
  });
  // Other ranks have read the next line long ago. Its store would else hold up our next unlock.
  shm::fetch_to_write(&group.block->line(state.seq + 1));
  if (state.awaited) ring_all(group);
}

void RegionChannel::signal(const Group& group, const RegionState& state, int counter,
                           std::int64_t value) noexcept {
  if (value <= 0) return;
  shm::raise_counter(group.block->counter(state.seq, counter), counter_value(state, value));
  ring_all(group);
}

void RegionChannel::tell_passed(const Group& group, const Op& op) noexcept {
  shm::raise_counter(group.block->done, group.window.done_word());  // we have read peers' memory
  // A rank may sleep until there is room, or until we have read its input. If it is far ahead, it
  // gets room for many calls at once. Later operations that had passed before are told only now.
  constexpr std::uint64_t kEvery = 16;
  if (op.plan->window == shm::kWindow || op.seq % kEvery == 0 || group.window.done_upto() > op.seq)
    ring_all(group);
}

RegionChannel::Lines RegionChannel::lines(Group& group, RegionState& state, const BoundPlan& plan,
                                          const RankRow& ranks, std::int32_t& at) noexcept {
  for (; at < ranks.count; ++at) {
    const int rank = ranks[at];
    if (rank == group.rank) continue;
    Member& member = group.member(rank);
    if (!is_known(group, member)) return Lines::missing;
    const shm::Arrival& line = member.block->line(state.seq);
    if (state.mode.sample == Sample::line) [[unlikely]]
      sample(group, state, rank, member.block, nullptr, 0);
    if (!shm::has_come(line, state.seq)) return Lines::missing;
    if (line.fingerprint != state.fingerprint) [[unlikely]]
      return Lines::differs;
    const std::byte* stage = line.payload.data;
    if (!state.in_line && state.stage_bytes > 0) {
      // Read once: what was checked is what is used.
      const volatile std::uint64_t& word = line.payload.exposed.stage_offset;
      const Lines found = find_stage(state, plan, rank, member.local, word);
      if (found != Lines::here) [[unlikely]]
        return found;
      continue;
    }
    state.stage_of[static_cast<std::size_t>(rank)] = stage;
  }
  at = 0;
  return Lines::here;
}

void RegionChannel::fetch_next(const Group& group, const RegionState& state,
                               const RankRow& ranks) noexcept {
  for (int i = 0; i < ranks.count; ++i) {
    const Member& member = group.member(ranks[i]);
    if (member.block != nullptr) shm::fetch_to_read(&member.block->line(state.seq + 1));
  }
}

/// Sets where a rank of our host has staged, by the word in its line, which is not trusted.
RegionChannel::Lines RegionChannel::find_stage(RegionState& state, const BoundPlan& plan, int rank,
                                               int local, std::uint64_t word) noexcept {
  const transport::RegionPeer& peer = regions_.peers[static_cast<std::size_t>(local)];
  const bool input = (word & shm::kOfInput) != 0;
  const std::uint64_t offset = word & ~shm::kOfInput;
  state.stage_of[static_cast<std::size_t>(rank)] = peer.arena + offset;
  // A rank that stages nothing (a receiver of a broadcast) exposes nothing, at offset 0.
  if (word == 0) return Lines::here;
  if (input && (!plan.stages_inputs || offset < shm::kUserOffset)) [[unlikely]]
    return Lines::outside;
  const std::size_t bytes = input ? bytes_of_input(plan, rank) : state.stage_bytes;
  if (!lies_in_staging(offset, bytes)) [[unlikely]]
    return Lines::outside;
  if (offset > peer.arena_bytes || peer.arena_bytes - offset < bytes) [[unlikely]] {
    if (!regions_.map) return Lines::outside;
    if (!regions_.map(local, offset, bytes)) return Lines::unmapped;
  }
  if (input) {
    state.borrows = true;
    state.input_of(rank) = before_input(plan, rank, peer.arena + offset);
  }
  return Lines::here;
}

bool RegionChannel::counters(Group& group, const RegionState& state, int counter,
                             std::int64_t value, const RankRow& ranks, std::int32_t& at) noexcept {
  if (value <= 0) return true;
  const std::uint64_t target = counter_value(state, value);
  for (; at < ranks.count; ++at) {
    const int rank = ranks[at];
    if (rank == group.rank) continue;
    Member& member = group.member(rank);
    if (!is_known(group, member)) return false;
    if (!has_reached(member.block->counter(state.seq, counter), target)) return false;
  }
  at = 0;
  return true;
}

int RegionChannel::find_signalled(const Group& group, const RegionState& state, int counter,
                                  std::int64_t value, const RankRow& ranks) noexcept {
  const std::uint64_t target = counter_value(state, value);
  for (int i = 0; i < ranks.count; ++i) {
    const int rank = ranks[i];
    const Member& member = group.member(rank);
    if (rank == group.rank || member.block == nullptr) continue;
    if (has_reached(member.block->counter(state.seq, counter), target)) return rank;
  }
  return -1;
}

bool RegionChannel::has_arrived(const Group& group, Member& member,
                                const RegionState& state) noexcept {
  return is_known(group, member) && shm::has_come(member.block->line(state.seq), state.seq);
}

bool RegionChannel::has_signalled(const Group& group, Member& member, const RegionState& state,
                                  int counter, std::int64_t value) noexcept {
  return value <= 0 ||
         (is_known(group, member) &&
          has_reached(member.block->counter(state.seq, counter), counter_value(state, value)));
}

void RegionChannel::sample(const Group& group, RegionState& state, int rank,
                           const shm::GroupBlock* block, const void* staged,
                           std::size_t bytes) noexcept {
  if (block == nullptr && bytes < StagingPolicy::kLeastBytes) return;
  if (rank != StagingPolicy::sampled_rank(state.seq, group.rank, group.size)) return;
  state.mode.sample = Sample::none;
  std::chrono::nanoseconds took{};
  if (block != nullptr) {
    // Another line of the same page, so that no translation is measured. relaxed: nothing is used.
    (void)block->line(state.seq + shm::kLines / 2).epoch.load(std::memory_order_relaxed);
    (void)now_();  // brings the clock's own memory into the cache
    const TimePoint begin = now_();
    const bool there = block->line(state.seq).epoch.load(std::memory_order_relaxed) == state.seq;
    took = now_() - begin;
    if (!there) return;  // the line was last written long ago, and may be in any cache
  } else {
    if (!StagingPolicy::is_worth_a_clock(bytes, state.seq)) return;
    took = CacheDistance::read_one_line(static_cast<const std::byte*>(staged), bytes, now_);
  }
  policy_.learn(took);
}

}  // namespace tutti::engine
