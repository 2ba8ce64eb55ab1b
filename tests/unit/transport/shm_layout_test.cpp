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
  EXPECT_EQ(kLayoutVersion, 10U);
  EXPECT_EQ(kMagic, 0x3169747475745454U);
  EXPECT_EQ(kWindow, 8);
  EXPECT_EQ(kLines, 64);
  EXPECT_EQ(kCounters, 2);
  EXPECT_EQ(kInlineBytes, 48U);
  EXPECT_EQ(kMaxGroups, 4096);
  EXPECT_EQ(kMaxLocalRanks, 1024);
  EXPECT_EQ(kRingBytes, 4 * kMiB);
  EXPECT_EQ(kStagingBytes, 4 * kMiB);
  EXPECT_EQ(kCounterShift, 24);
}

TEST(ShmLayout, PartsOfAnArenaLieWhereThePageSays) {
  EXPECT_EQ(kGroupStride, 8 * kKiB);
  EXPECT_EQ(kRingStride, 4 * kMiB + 20 * kKiB);
  EXPECT_EQ(kStagingOffset, 4608 * kMiB);
  EXPECT_EQ(kHeapOffset, 5 * kGiB);
#if defined(__SANITIZE_THREAD__)
  EXPECT_EQ(kArenaBytes, 8 * kGiB);
  EXPECT_EQ(kUserOffset, 6656 * kMiB);
#else
  EXPECT_EQ(kArenaBytes, 64 * kGiB);
  EXPECT_EQ(kUserOffset, 35328 * kMiB);
#endif
  EXPECT_EQ(kOfInput, std::uint64_t{1} << 63);
  EXPECT_LE(kMaxLocalRanks * kRingStride, kStagingOffset);
  EXPECT_LE(kStagingOffset + kStagingBytes, kHeapOffset);
}

TEST(ShmLayout, PartsOfAHostLieWhereThePageSays) {
  constexpr HostLayout kThree{3};
  EXPECT_EQ((Numbers{kThree.words(0), kThree.ring_counters(0, 0), kThree.group_id(0, 0),
                     kThree.break_word(0, 0), kThree.block(0, 0), kThree.control_bytes(),
                     kThree.arena(0), kThree.bytes()}),
            (Numbers{4096, 8192, 12288, 12288 + 98304, 12288 + 2 * 98304, 208896 + 96 * kMiB,
                     1 * kGiB, 1 * kGiB + 3 * kArenaBytes}));
  EXPECT_EQ((Numbers{kThree.words(2), kThree.ring_counters(1, 2), kThree.group_id(1, 2),
                     kThree.break_word(1, 2), kThree.block(1, 2), kThree.arena(2)}),
            (Numbers{4096 + 2 * 256, 8192 + 5 * 64, 12288 + 5 * 8, 12288 + 98304 + 5 * 8,
                     208896 + 5 * 8 * kKiB, 1 * kGiB + 2 * kArenaBytes}));
  constexpr HostLayout kMost{kMaxLocalRanks};
  EXPECT_EQ((Numbers{kMost.ring_counters(0, 0), kMost.group_id(0, 0), kMost.break_word(0, 0),
                     kMost.block(0, 0), kMost.arena(0)}),
            (Numbers{4096 + 256 * kKiB, 4096 + 256 * kKiB + 64 * kMiB,
                     4096 + 256 * kKiB + 96 * kMiB, 4096 + 256 * kKiB + 128 * kMiB, 33 * kGiB}));
  EXPECT_LT(kMost.bytes(), std::size_t{1} << 47) << "a process may have no more addresses";
}

TEST(ShmLayout, PartsOfAHostDoNotOverlap) {
  for (const std::size_t ranks : {std::size_t{1}, std::size_t{65}, std::size_t{1024}}) {
    const HostLayout layout{ranks};
    EXPECT_GE(layout.words(0), sizeof(HostHeader));
    EXPECT_GE(layout.ring_counters(0, 0), layout.words(ranks));
    EXPECT_GE(layout.group_id(0, 0), layout.ring_counters(ranks - 1, ranks - 1) + 64);
    EXPECT_GE(layout.break_word(0, 0), layout.group_id(kMaxGroups - 1, ranks - 1) + 8);
    EXPECT_GE(layout.block(0, 0), layout.break_word(kMaxGroups - 1, ranks - 1) + 8);
    EXPECT_EQ(layout.control_bytes(), layout.block(kMaxGroups - 1, ranks - 1) + kGroupStride);
    EXPECT_GE(layout.arena(0), layout.control_bytes());
    EXPECT_EQ(layout.bytes(), layout.arena(ranks - 1) + kArenaBytes);
    EXPECT_EQ(layout.control_bytes() % 4096, 0U) << "its protection differs from that of arenas";
  }
}

TEST(ShmLayout, HeaderAndRankWords) {
  EXPECT_EQ((Numbers{offsetof(HostHeader, magic), offsetof(HostHeader, version),
                     offsetof(HostHeader, ranks), sizeof(HostHeader)}),
            (Numbers{0, 8, 12, 16}));
  EXPECT_EQ(
      (Numbers{offsetof(RankWords, rank), offsetof(RankWords, pid), offsetof(RankWords, left),
               offsetof(RankWords, remote_cache), offsetof(RankWords, slots),
               offsetof(RankWords, closed), offsetof(RankWords, park), offsetof(RankWords, breaks),
               offsetof(RankWords, closings), sizeof(RankWords)}),
      (Numbers{0, 4, 8, 12, 16, 20, 64, 128, 132, 256}));
  EXPECT_EQ(static_cast<std::uint32_t>(Park::awake), 0U);
  EXPECT_EQ(static_cast<std::uint32_t>(Park::futex), 1U);
  EXPECT_EQ(static_cast<std::uint32_t>(Park::eventfd), 2U);
  EXPECT_EQ(sleep_word(3), 13U);
  EXPECT_EQ(state_of(sleep_word(~std::uint32_t{0})), Park::futex);
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
                     offsetof(ShortMessage, bytes), offsetof(ShortMessage, group),
                     offsetof(ShortMessage, tag), offsetof(ShortMessage, after),
                     offsetof(ShortMessage, data), sizeof(ShortMessage), alignof(ShortMessage)}),
            (Numbers{0, 4, 6, 8, 16, 20, 24, 64, 64}));
  EXPECT_EQ(kAfter, 0xff'ffffU);
  EXPECT_EQ(kShortLines, 256U);
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
  EXPECT_TRUE(std::is_standard_layout_v<HostHeader>);
  EXPECT_TRUE(std::is_standard_layout_v<GroupBlock>);
  EXPECT_TRUE(std::is_standard_layout_v<RankWords>);
}

TEST(ShmLayout, RanksAreFoundByTheSameOffsets) {
  constexpr HostLayout kFour{4};
  auto* const memory = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  const RegionControl third(memory, 4, 2);
  const auto place = [&](const auto& part) {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&part) - memory);
  };
  EXPECT_EQ(place(third.words()), kFour.words(2));
  EXPECT_EQ(place(third.group(4095)), kFour.block(4095, 2));
  EXPECT_EQ(place(third.group_id(3)), kFour.group_id(3, 2));
  EXPECT_EQ(place(third.break_word(3)), kFour.break_word(3, 2));
  EXPECT_EQ(place(third.ring_counters(1)), kFour.ring_counters(1, 2)) << "rank 1 reads them";
  RegionPeer peer;
  peer.arena = memory;
  EXPECT_EQ(peer.ring(3) - memory, std::ptrdiff_t{3 * (4 * kMiB + 20 * kKiB)});
  EXPECT_EQ(reinterpret_cast<const std::byte*>(peer.shorts(3)) - peer.ring(3),
            std::ptrdiff_t{4 * kMiB});
}

}  // namespace
}  // namespace tutti::transport::shm
