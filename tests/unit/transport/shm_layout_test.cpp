// Freezes the shared-memory layout that docs/design/shared-memory.md draws: ranks of one host may
// come from different builds of the library. A change of a number here changes kLayoutVersion and
// the page.

#include <type_traits>

#include <gtest/gtest.h>

#include "transport/region.hpp"
#include "transport/shm/layout.hpp"
#include "transport/shm/words.hpp"

namespace tutti::transport::shm {
namespace {

/// Offsets of fields, the size and the alignment of a struct.
using Numbers = std::vector<std::size_t>;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kGiB = 1024 * kMiB;

TEST(ShmLayout, HasTheFrozenVersionAndLimits) {
  EXPECT_EQ(kLayoutVersion, 8U);
  EXPECT_EQ(kMagic, 0x3169747475745454U);
  EXPECT_EQ(kWindow, 8);
  EXPECT_EQ(kLines, 64);
  EXPECT_EQ(kCounters, 2);
  EXPECT_EQ(kInlineBytes, 48U);
  EXPECT_EQ(kMaxGroups, 4096);
  EXPECT_EQ(kMaxLocalRanks, 512);
  EXPECT_EQ(kRingBytes, 4 * kMiB);
  EXPECT_EQ(kStagingBytes, 4 * kMiB);
  EXPECT_EQ(kCounterShift, 24);
}

TEST(ShmLayout, RegionsOfAnArenaLieWhereThePageSays) {
  EXPECT_EQ(kRingCountersOffset, 256 * kKiB);
  EXPECT_EQ(kDirectoryOffset, 384 * kKiB);
  EXPECT_EQ(kGroupsOffset, 1 * kMiB);
  EXPECT_EQ(kGroupStride, 8 * kKiB);
  EXPECT_EQ(kRingOffset, 33 * kMiB);
  EXPECT_EQ(kRingStride, 4 * kMiB + 20 * kKiB);
  EXPECT_EQ(kStagingOffset, 2560 * kMiB);
  EXPECT_EQ(kHeapOffset, 3 * kGiB);
#if defined(__SANITIZE_THREAD__)
  EXPECT_EQ(kArenaBytes, 4 * kGiB);
#else
  EXPECT_EQ(kArenaBytes, 64 * kGiB);
#endif
}

TEST(ShmLayout, RegionsDoNotOverlap) {
  struct Region {
    std::size_t begin;
    std::size_t size;
  };
  const Region regions[] = {
      {0, sizeof(ArenaHeader)},
      {kRingCountersOffset, kMaxLocalRanks * sizeof(RingCounters)},
      {kDirectoryOffset, kMaxGroups * 8},
      {kGroupsOffset, kMaxGroups * kGroupStride},
      {kRingOffset, kMaxLocalRanks * kRingStride},
      {kStagingOffset, kStagingBytes},
      {kHeapOffset, kArenaBytes - kHeapOffset},
  };
  std::size_t end = 0;
  for (const Region& region : regions) {
    EXPECT_GE(region.begin, end);
    end = region.begin + region.size;
  }
  EXPECT_EQ(end, kArenaBytes);
}

TEST(ShmLayout, ArenaHeader) {
  EXPECT_EQ(
      (Numbers{offsetof(ArenaHeader, magic), offsetof(ArenaHeader, version),
               offsetof(ArenaHeader, rank), offsetof(ArenaHeader, pid), offsetof(ArenaHeader, left),
               offsetof(ArenaHeader, remote_cache), sizeof(ArenaHeader)}),
      (Numbers{0, 8, 12, 16, 64, 68, 128}));
}

TEST(ShmLayout, Arrival) {
  EXPECT_EQ(
      (Numbers{offsetof(Arrival, epoch), offsetof(Arrival, fingerprint), offsetof(Arrival, payload),
               offsetof(Arrival, payload.data), offsetof(Arrival, payload.exposed.stage_offset),
               offsetof(Arrival, payload.exposed.stage_bytes), sizeof(Arrival), alignof(Arrival)}),
      (Numbers{0, 8, 16, 16, 16, 24, 64, 64}));
}

TEST(ShmLayout, GroupBlock) {
  EXPECT_EQ((Numbers{offsetof(CallRecord, call), sizeof(CallRecord), sizeof(Counter),
                     alignof(Counter), offsetof(GroupBlock, lines), offsetof(GroupBlock, counters),
                     offsetof(GroupBlock, done), offsetof(GroupBlock, calls),
                     offsetof(GroupBlock, note), sizeof(GroupBlock)}),
            (Numbers{0, 24, 64, 64, 0, 4096, 5120, 5184, 6720, 7744}));
  const GroupBlock block{};
  EXPECT_EQ(&block.line(65), &block.lines[1]);
  EXPECT_EQ(&block.call(65), &block.calls[1]);
  EXPECT_EQ(&block.counter(9, 1), &block.counters[1][1]);
  EXPECT_EQ(done_word(3, 0x1234'5678'9abc'def0), 0x3bc'def0U);
  EXPECT_EQ(number_of(0x3bc'def0U), 3U);
}

TEST(ShmLayout, Note) {
  EXPECT_EQ((Numbers{offsetof(Note, length), offsetof(Note, text), sizeof(Note)}),
            (Numbers{0, 4, 1024}));
}

TEST(ShmLayout, RingCountersAndRings) {
  EXPECT_EQ(
      (Numbers{offsetof(RingCounters, taken), offsetof(RingCounters, written),
               offsetof(RingCounters, remote_cache), offsetof(RingCounters, sends_short),
               offsetof(RingCounters, shorts_taken), sizeof(RingCounters), alignof(RingCounters)}),
      (Numbers{0, 8, 16, 20, 24, 64, 64}));
  EXPECT_EQ(kLastWord, 1U);
  EXPECT_EQ(kRingAlign, 64U);
  EXPECT_EQ(kSkipType, 255U);
  EXPECT_EQ(kNonTemporal, 1U);
}

TEST(ShmLayout, ShortMessages) {
  EXPECT_EQ((Numbers{offsetof(ShortMessage, count), offsetof(ShortMessage, number),
                     offsetof(ShortMessage, dtype), offsetof(ShortMessage, bytes),
                     offsetof(ShortMessage, group), offsetof(ShortMessage, tag),
                     offsetof(ShortMessage, after), offsetof(ShortMessage, data),
                     sizeof(ShortMessage), alignof(ShortMessage)}),
            (Numbers{0, 4, 6, 7, 8, 16, 20, 24, 64, 64}));
  EXPECT_EQ(kShortMessages, 256U);
}

TEST(ShmLayout, Page) {
  EXPECT_EQ((Numbers{offsetof(Page, park), offsetof(Page, breaks), offsetof(Page, break_words)}),
            (Numbers{0, 64, 128}));
  EXPECT_EQ(sizeof(Page), 128U + 4096U * 8U);
  EXPECT_EQ(kPageBytes, 64 * kKiB);
  EXPECT_EQ(static_cast<std::uint32_t>(Park::awake), 0U);
  EXPECT_EQ(static_cast<std::uint32_t>(Park::futex), 1U);
  EXPECT_EQ(static_cast<std::uint32_t>(Park::eventfd), 2U);
  EXPECT_EQ(sleep_word(3), 13U);
  EXPECT_EQ(state_of(sleep_word(~std::uint32_t{0})), Park::futex);
}

TEST(ShmLayout, BreakWordPacksItsFields) {
  EXPECT_EQ(break_word(4, 511, -1), 0x0000'0000'01ff'0004U);
  EXPECT_EQ(break_word(3, 0, 0), 0x0000'0001'0000'0003U);
  EXPECT_EQ(break_word(12, 65535, 65535), 0x0001'0000'ffff'000cU);
}

TEST(ShmLayout, WordsOfOtherProcessesAreLockFreeAndPlain) {
  EXPECT_TRUE(std::atomic<std::uint64_t>::is_always_lock_free);
  EXPECT_TRUE(std::atomic<std::uint32_t>::is_always_lock_free);
  EXPECT_EQ(sizeof(std::atomic<std::uint64_t>), 8U);
  EXPECT_EQ(sizeof(std::atomic<std::uint32_t>), 4U);
  EXPECT_TRUE(std::is_standard_layout_v<ArenaHeader>);
  EXPECT_TRUE(std::is_standard_layout_v<GroupBlock>);
  EXPECT_TRUE(std::is_standard_layout_v<Page>);
}

TEST(ShmLayout, PeersAreFoundByTheSameOffsets) {
  const auto* const arena = reinterpret_cast<const std::byte*>(std::uintptr_t{1} << 40);
  RegionPeer peer;
  peer.arena = arena;
  EXPECT_EQ(reinterpret_cast<const std::byte*>(&peer.header()) - arena, 0);
  EXPECT_EQ(reinterpret_cast<const std::byte*>(&peer.group(0)) - arena, std::ptrdiff_t{1 * kMiB});
  EXPECT_EQ(reinterpret_cast<const std::byte*>(&peer.group(4095)) - arena,
            std::ptrdiff_t{1 * kMiB + 4095 * 8 * kKiB});
  EXPECT_EQ(reinterpret_cast<const std::byte*>(&peer.group_id(3)) - arena,
            std::ptrdiff_t{384 * kKiB + 24});
  EXPECT_EQ(reinterpret_cast<const std::byte*>(&peer.ring_counters(5)) - arena,
            std::ptrdiff_t{256 * kKiB + 5 * 64});
  EXPECT_EQ(peer.ring(3) - arena, std::ptrdiff_t{33 * kMiB + 3 * (4 * kMiB + 20 * kKiB)});
  EXPECT_EQ(reinterpret_cast<const std::byte*>(peer.shorts(3)) - peer.ring(3),
            std::ptrdiff_t{4 * kMiB});
}

}  // namespace
}  // namespace tutti::transport::shm
