#include <atomic>
#include <random>

#include "contract/transport/ring_fixture.hpp"
#include "os/futex.hpp"
#include "support/rotation.hpp"
#include "support/sanitized.hpp"

namespace tutti::transport::test {

namespace {

using tutti::test::kSanitized;

/// Fills the ring from rank 0 to this one. Frames that fitted.
std::size_t fill(RingRanks& ranks, std::size_t bytes, int to = 1) {
  const std::vector<std::byte> payload(bytes);
  std::size_t frames = 0;
  while (ranks.try_send(0, to, head_of(1, bytes), payload.data()) != 0) ++frames;
  return frames;
}

/// Every frame arrives whole, and wherever the one before it ended, over several laps of the ring.
void run_laps(std::size_t most, std::size_t cycle) {
  RingRanks ranks(2);
  std::size_t sent = 0;
  for (std::size_t i = 0; sent < 3 * cycle; ++i) {
    const std::size_t bytes = i * 977 % (most + 1);
    const std::vector<std::byte> payload = payload_of(i, bytes);
    ASSERT_NE(ranks.try_send(0, 1, head_of(i, bytes), payload.data()), 0U) << "frame " << i;
    ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == 1; })) << "frame " << i;
    auto& frames = ranks.sink(1).peers[0].frames;
    ASSERT_TRUE(same(frames[0].header, head_of(i, bytes)));
    ASSERT_TRUE(frames[0].payload == payload) << "frame " << i << " of " << bytes << " bytes";
    frames.clear();
    sent += sizeof(FrameHeader) + bytes;
  }
}

TEST(Ring, LapsOfShortFrames) {
  run_laps(shm::RingTransport::kLongPayload - 1, shm::RingTransport::kShortCycle);
}

TEST(Ring, LapsOfLongFrames) { run_laps(kMaxFramePayload, shm::kRingBytes); }

TEST(Ring, ItsLengthFollowsTheCache) {
  constexpr std::size_t kKiB = 1024;
  const auto cycle = [](std::size_t cache) { return shm::RingTransport::long_cycle(cache); };
  EXPECT_EQ(cycle(512 * kKiB), 1024 * kKiB);
  EXPECT_EQ(cycle(1280 * kKiB), 2560 * kKiB);
  EXPECT_EQ(cycle(0), shm::RingTransport::kShortCycle);
  EXPECT_EQ(cycle(64 * 1024 * kKiB), shm::kRingBytes);
  EXPECT_EQ(cycle(512 * kKiB + 1) % shm::kRingAlign, 0U);
}

TEST(Ring, PastTheCacheTheyArriveTheSame) {
  RingRanks ranks(2);
  std::atomic<std::uint32_t>& remote = ranks.regions(1).control().ring_counters(0).remote_cache;
  Stream stream{0, 1, {}};
  for (int round = 0; round < 6; ++round) {  // less than a lap: the first heads are looked at below
    for (const std::size_t size : {0, 64, 4095, 4096, 4097, 16383, 16384, 100001, 131072})
      stream.sizes.push_back(size);
  }
  const auto round_trip = [&](std::size_t to) {
    while (stream.memory.size() < to) {
      const std::size_t next = stream.memory.size();
      stream.memory.push_back(payload_of(next, stream.sizes[next]));
      remote = next % 5 != 0;  // whatever it has learned
      ASSERT_NE(ranks.try_send(0, 1, head_of(next, stream.sizes[next]), stream.memory[next].data()),
                0U);
      ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == next + 1; }));
    }
  };
  round_trip(stream.sizes.size());
  stream.check(ranks);
  // The first frame is one of no bytes, and the fourth, of 4096, the first that may go past it.
  const std::byte* const ring = ranks.regions(0).ring(1);
  const std::size_t fourth = 64 + (64 + 64) + (64 + 4096);
  FrameHeader head;
  std::memcpy(&head, ring + fourth, sizeof head);
  EXPECT_EQ(head.payload_bytes, 4096U);
  EXPECT_EQ(head.reserved, shm::kNonTemporal);
  std::memcpy(&head, ring + 64 + 128, sizeof head);
  EXPECT_EQ(head.payload_bytes, 4095U);
  EXPECT_EQ(head.reserved, 0U);
}

TEST(Ring, OnlySoManyRingsAreLong) {
  constexpr int kPeers = shm::RingTransport::kLongRings + 2;
  RingRanks ranks(kPeers + 1);
  std::size_t least = ~std::size_t{0};
  std::size_t most = 0;
  for (int peer = 1; peer <= kPeers; ++peer) {
    const std::size_t frames = fill(ranks, kMaxFramePayload, peer);
    least = std::min(least, frames);
    most = std::max(most, frames);
    EXPECT_EQ(frames > shm::RingTransport::kShortCycle / kMaxFramePayload,
              peer <= shm::RingTransport::kLongRings)
        << "to rank " << peer;
    ASSERT_TRUE(ranks.until([&] { return ranks.sink(peer).received(0) == frames; }));
  }
  EXPECT_EQ(least, 3U);
  EXPECT_EQ(most,
            shm::RingTransport::long_cycle(shm::RingOptions().core_cache) / kMaxFramePayload - 1);
}

TEST(Ring, DropsTheRestOfAFrameWhenTold) {
  RingRanks ranks(2);
  Regions& sender = ranks.regions(0);
  ASSERT_TRUE(os::populate(sender.ring(1), 64 * 1024).ok());
  const FrameHeader head = head_of(1, 8192);
  const std::vector<std::byte> payload = payload_of(1, 8192);
  std::memcpy(sender.ring(1), &head, sizeof head);
  std::memcpy(sender.ring(1) + sizeof head, payload.data(), payload.size());
  sender.control().ring_counters(1).written = sizeof head + 4096;
  ranks.at(1).poll();
  EXPECT_EQ(ranks.sink(1).received(0), 0U) << "half of it is there";
  ranks.at(1).drop_arriving(0);
  sender.control().ring_counters(1).written = sizeof head + 8192;
  ranks.at(1).poll();
  EXPECT_EQ(ranks.sink(1).received(0), 0U);
  EXPECT_FALSE(ranks.sink(1).lost(0));
  const FrameHeader next = head_of(2, 0);
  std::memcpy(sender.ring(1) + sizeof head + 8192, &next, sizeof next);
  sender.control().ring_counters(1).written = 2 * sizeof head + 8192;
  ranks.at(1).poll();
  ASSERT_EQ(ranks.sink(1).received(0), 1U);
  EXPECT_TRUE(same(ranks.sink(1).peers[0].frames[0].header, next));
}

/// Sends the message of this number as a short one, or as a frame. True: it was a short one.
bool send_either(RingRanks& ranks, int from, int to, std::uint64_t number, std::size_t bytes) {
  const std::vector<std::byte> payload = payload_of(number, bytes);
  if (bytes <= kMaxShort && ranks.at(from).send_short(to, short_of(number, bytes), payload.data()))
    return true;
  EXPECT_NE(ranks.try_send(from, to, head_of(number, bytes), payload.data()), 0U);
  return false;
}

TEST(Ring, ShortMessagesKeepTheirPlaceAmongFrames) {
  RingRanks ranks(2);
  constexpr std::size_t kMany = 6 * shm::kShortLines;
  Stream expected{0, 1, {}};
  std::size_t shorts = 0;
  for (std::size_t i = 0; i < kMany; ++i) {
    expected.sizes.push_back(i % 5 == 3   ? 400 * (i % 11)
                             : i % 7 == 2 ? i % (kMaxShort + 1)
                                          : i % 41);
    shorts += send_either(ranks, 0, 1, i, expected.sizes.back()) ? 1 : 0;
    if (i % 97 != 96) continue;
    ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == i + 1; }));
  }
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == kMany; }));
  expected.check(ranks);
  EXPECT_GT(shorts, kMany / 2);
}

TEST(Ring, WithoutRoomForShortMessagesTheyAreFrames) {
  RingRanks ranks(2);
  constexpr std::size_t kMany = 2 * shm::kShortLines;
  const Stream expected{0, 1, std::vector<std::size_t>(kMany, 8)};
  std::size_t shorts = 0;
  for (std::size_t i = 0; i < kMany; ++i) shorts += send_either(ranks, 0, 1, i, 8) ? 1 : 0;
  EXPECT_EQ(shorts, shm::kShortLines);
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == kMany; }));
  expected.check(ranks);
  EXPECT_TRUE(send_either(ranks, 0, 1, kMany, 8)) << "all have been taken";
}

TEST(Ring, AMessageOfSeveralLinesIsTakenWhenAllHaveCome) {
  RingRanks ranks(2);
  Stream expected{0, 1, {}};
  std::size_t end = 0;
  for (const auto& [bytes, lines] : {std::pair<std::size_t, std::size_t>{40, 1},
                                     {41, 2},
                                     {100, 2},
                                     {101, 3},
                                     {400, 7},
                                     {kMaxShort, 18}}) {
    const std::uint64_t number = expected.sizes.size();
    expected.sizes.push_back(bytes);
    ASSERT_TRUE(send_either(ranks, 0, 1, number, bytes));
    end += lines;
    std::atomic<std::uint32_t>& last = ranks.regions(0).shorts(1)[end - 1].count;
    EXPECT_EQ(last, end);
    const std::uint32_t count = last.exchange(0);
    EXPECT_FALSE(ranks.at(1).poll()) << "a reader that sees nothing may sleep";
    EXPECT_EQ(ranks.sink(1).received(0), number);
    last = count;
    EXPECT_TRUE(ranks.at(1).poll());
    ASSERT_EQ(ranks.sink(1).received(0), number + 1);
  }
  expected.check(ranks);
}

/// Takes the short message of this number directly; it must have come if it is `taken`.
ShortLook take_short(RingRanks& ranks, std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> got(bytes + 1, std::byte{0xee});
  const ShortLook look = ranks.at(1).take_short(0, short_of(number, bytes), got.data());
  EXPECT_EQ(got.back(), std::byte{0xee}) << "written behind the message";
  got.pop_back();
  if (look == ShortLook::taken) {
    EXPECT_EQ(got, payload_of(number, bytes));
  } else {
    EXPECT_EQ(got, std::vector<std::byte>(bytes, std::byte{0xee}));
  }
  return look;
}

TEST(Ring, TakesTheShortMessageThatIsNextDirectly) {
  RingRanks ranks(2);
  EXPECT_EQ(take_short(ranks, 0, 8), ShortLook::nothing);
  const std::size_t sizes[] = {0, 1, 8, 40, 41, 99, 100, 101, 700, kMaxShort};
  std::uint64_t number = 0;
  for (int round = 0; round < 40; ++round) {  // several laps of the lines
    for (const std::size_t bytes : sizes) {
      ASSERT_TRUE(send_either(ranks, 0, 1, number, bytes));
      EXPECT_EQ(take_short(ranks, number + 1, bytes), ShortLook::other) << "another message";
      EXPECT_EQ(take_short(ranks, number, bytes + 1), ShortLook::other) << "another size";
      EXPECT_EQ(take_short(ranks, number, bytes), ShortLook::taken) << bytes << " bytes";
      EXPECT_EQ(take_short(ranks, ++number, bytes), ShortLook::nothing);
    }
  }
  EXPECT_EQ(ranks.sink(1).received(0), 0U);
}

TEST(Ring, TakesNoShortMessagePastAFrameOrTheEnd) {
  RingRanks ranks(2);
  for (const std::size_t frame : {std::size_t{0}, std::size_t{100'000}}) {
    ASSERT_TRUE(send_either(ranks, 0, 1, 1, 8));
    ASSERT_NE(ranks.try_send(0, 1, head_of(2, frame), payload_of(2, frame).data()), 0U);
    ASSERT_TRUE(send_either(ranks, 0, 1, 3, 8));
    EXPECT_EQ(take_short(ranks, 3, 8), ShortLook::other);
    EXPECT_EQ(take_short(ranks, 1, 8), ShortLook::taken);
    EXPECT_EQ(take_short(ranks, 3, 8), ShortLook::other) << "a frame is before it";
    ranks.sink(1).peers[0].frames.clear();
    ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == 2; }));
    EXPECT_EQ(take_short(ranks, 4, 8), ShortLook::nothing);
  }
  ASSERT_TRUE(send_either(ranks, 0, 1, 4, 8));
  ranks.at(0).close(0);
  EXPECT_EQ(take_short(ranks, 4, 8), ShortLook::taken);
  EXPECT_EQ(take_short(ranks, 5, 8), ShortLook::other) << "the sender has left";
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).lost(0); }, 0));
  EXPECT_EQ(take_short(ranks, 5, 8), ShortLook::other);
}

TEST(Ring, AShortMessageWakesItsReceiverAndComesBeforeTheEnd) {
  RingRanks ranks(2);
  ranks.park(1) = 1;
  ASSERT_TRUE(send_either(ranks, 0, 1, 1, 8));
  EXPECT_EQ(ranks.park(1), 0U);
  ranks.at(0).close(0);
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).lost(0); }, 0));
  EXPECT_EQ(ranks.sink(1).received(0), 1U);
  expect_lost(ranks.sink(1), 0, Errc::peer_left);
  EXPECT_FALSE(ranks.at(0).send_short(1, short_of(2, 8), payload_of(2, 8).data()));
}

/// However much of the rest one poll takes: the last frame may end where a poll ends.
TEST(Ring, ShortMessagesBehindTheLastFrameComeBeforeTheEnd) {
  for (std::size_t frames = 0; frames < 8; ++frames) {
    RingRanks ranks(2);
    Stream expected{0, 1, std::vector<std::size_t>(frames, kMaxFramePayload)};
    expected.sizes.insert(expected.sizes.end(), {8, 0, kMaxShort});
    for (std::size_t i = 0; i < expected.sizes.size(); ++i)
      ASSERT_EQ(send_either(ranks, 0, 1, i, expected.sizes[i]), i >= frames);
    ranks.at(0).close(0);
    ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).lost(0); }, 0));
    expect_lost(ranks.sink(1), 0, Errc::peer_left);
    ASSERT_EQ(ranks.sink(1).received(0), expected.sizes.size()) << frames << " frames before";
    expected.check(ranks);
  }
}

TEST(Ring, TheEndTouchesNoLineOfRanksWithoutTraffic) {
  RingRanks ranks(4);
  ASSERT_NE(ranks.try_send(0, 1, head_of(1, 8), payload_of(1, 8).data()), 0U);
  ASSERT_TRUE(send_either(ranks, 3, 0, 1, 8));  // it is not read
  for (const int rank : {2, 3}) ranks.park(rank) = 1;
  ranks.at(0).close(0);
  for (const int rank : {2, 3}) {
    EXPECT_EQ(ranks.park(rank), 0U);
    EXPECT_EQ(ranks.regions(0).control().ring_counters(rank).written, 0U);
  }
  const auto is_told = [&] {
    return ranks.sink(1).lost(0) && ranks.sink(2).lost(0) && ranks.sink(3).lost(0);
  };
  ASSERT_TRUE(ranks.until(is_told, 0));
  for (const int rank : {1, 2, 3}) expect_lost(ranks.sink(rank), 0, Errc::peer_left);
  EXPECT_EQ(ranks.sink(1).received(0), 1U);
}

TEST(Ring, RefusesShortMessagesThatTheSinkOrTheirLengthForbids) {
  RingRanks ranks(3);
  ranks.sink(2).refused.insert(5);
  ASSERT_TRUE(send_either(ranks, 1, 2, 5, 8));
  ASSERT_TRUE(send_either(ranks, 0, 2, 1, 8));
  ranks.regions(0).shorts(2)[0].bytes = kMaxShort + 1;
  ranks.at(2).poll();
  for (const int liar : {0, 1}) {
    expect_lost(ranks.sink(2), liar, Errc::refused, "rank " + std::to_string(liar));
    EXPECT_EQ(ranks.sink(2).received(liar), 0U);
  }
}

TEST(Ring, TakesTheWholeRingOfSmallestFrames) {
  RingRanks ranks(2);
  const std::size_t frames = fill(ranks, 0);
  constexpr std::size_t kUsed =
      shm::RingTransport::kShortCycle - shm::RingTransport::kMostFrame - shm::kRingAlign;
  EXPECT_EQ(frames, kUsed / shm::kRingAlign + 1);
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == frames; }));
  EXPECT_TRUE(ranks.at(0).can_send(1));
}

TEST(Ring, RingsWhoSleepsForAFrame) {
  RingRanks ranks(3);
  for (int rank = 0; rank < 3; ++rank) ranks.park(rank) = 1;
  ASSERT_NE(ranks.try_send(0, 1, head_of(1, 0), nullptr), 0U);
  EXPECT_EQ(ranks.park(1), 0U);
  EXPECT_EQ(ranks.park(2), 1U) << "nothing came for it";
  EXPECT_EQ(ranks.park(0), 1U);
  ranks.park(1) = 1;
  ranks.at(0).close(0);
  EXPECT_EQ(ranks.park(1), 0U) << "the end of the other is something to see, too";
}

TEST(Ring, RingsWhoSleepsForRoomOnceThereIsSome) {
  RingRanks ranks(2);
  const std::size_t frames = fill(ranks, kMaxFramePayload);
  ASSERT_GE(frames, 2U);
  ranks.park(0) = 1;
  ASSERT_FALSE(ranks.at(0).can_send(1));
  ranks.at(1).poll();
  EXPECT_EQ(ranks.park(0), 0U);
  EXPECT_TRUE(ranks.at(0).can_send(1));
  // Who has room is left alone.
  while (ranks.sink(1).received(0) < frames) ranks.at(1).poll();
  ranks.park(0) = 1;
  for (int i = 0; i < 3; ++i) {
    ASSERT_NE(ranks.try_send(0, 1, head_of(1, 8), payload_of(1, 8).data()), 0U);
    ranks.at(1).poll();
  }
  EXPECT_EQ(ranks.park(0), 1U);
}

TEST(Ring, SaysMemoryLacksInsteadOfTouchingIt) {
  RingFixture fixture(2);
  const auto refuse = [](std::byte*, std::size_t) {
    return Outcome(Errc::resource, "taking memory: none is left");
  };
  auto made = shm::RingTransport::make({&fixture.regions(0), 2, refuse, true});
  ASSERT_TRUE(made.ok());
  Recorder sink;
  (*made)->set_sink(&sink);
  ASSERT_TRUE((*made)->can_send(1));
  (*made)->send(1, head_of(1, 0), nullptr, 1);
  EXPECT_FALSE(sink.lost(1)) << "told in poll only";
  (*made)->poll();
  expect_lost(sink, 1, Errc::resource);
  (*made)->poll();
  EXPECT_EQ(sink.peers[1].lost.size(), 1U);
}

TEST(Ring, WhatADeadRankHadSentCanBeRead) {
  RingRanks ranks(2);
  Stream stream{0, 1, {100, 131072, 0, 8}};
  stream.push(ranks);
  ranks.kill(0);
  ASSERT_TRUE(ranks.until([&] { return stream.arrived(ranks); }));
  stream.check(ranks);
  EXPECT_FALSE(ranks.sink(1).lost(0));
}

TEST(Ring, ItselfOrAForeignRankCannotBeSentTo) {
  RingRanks ranks(2);
  EXPECT_FALSE(ranks.at(0).can_send(0));
  ranks.at(0).send(0, head_of(1, 0), nullptr, 1);
  EXPECT_FALSE(ranks.at(0).poll());
}

/// What rank 0 says of its ring for rank 1 is nonsense.
struct Lie {
  const char* name;
  std::uint64_t written;   ///< what the counter says
  FrameHeader first = {};  ///< what stands at the begin of the ring
};
void PrintTo(const Lie& lie, std::ostream* out) { *out << lie.name; }

class RingLies : public testing::TestWithParam<Lie> {};

void put(std::byte* ring, FrameHeader header) { std::memcpy(ring, &header, sizeof header); }

TEST_P(RingLies, DropThePeerAndNothingElse) {
  RingRanks ranks(3);
  Regions& liar = ranks.regions(0);
  ASSERT_TRUE(os::populate(liar.ring(1), shm::kRingBytes).ok());
  put(liar.ring(1), GetParam().first);
  liar.control().ring_counters(1).written = GetParam().written;
  (void)ranks.at(1).can_send(0);
  Stream other{2, 1, {5, 70000}};
  other.push(ranks);
  ASSERT_TRUE(ranks.until([&] { return other.arrived(ranks) && ranks.sink(1).lost(0); }, 0));
  ASSERT_EQ(ranks.sink(1).peers[0].lost.size(), 1U);
  expect_lost(ranks.sink(1), 0, Errc::refused, "rank 0");
  EXPECT_EQ(ranks.sink(1).peers[0].lost[0].culprit(), 0);
  EXPECT_EQ(ranks.sink(1).received(0), 0U);
  EXPECT_FALSE(ranks.sink(1).lost(2));
  EXPECT_TRUE(ranks.at(1).can_send(0)) << "a lost peer takes and drops";
}

FrameHeader head_of_type(FrameType type) { return {.type = static_cast<std::uint8_t>(type)}; }
FrameHeader reserved_head() {
  FrameHeader header = head_of(1, 0);
  header.reserved = shm::kNonTemporal << 1;
  return header;
}

INSTANTIATE_TEST_SUITE_P(
    Table, RingLies,
    testing::Values(
        Lie{"MoreThanTheRing", shm::kRingBytes + 64, head_of(1, 0)},  // a frame that would be taken
        Lie{"NoWholeUnits", 66}, Lie{"EverythingThereIs", ~std::uint64_t{0}},
        Lie{"UnknownType", 64}, Lie{"Leave", 64, head_of_type(FrameType::leave)},
        Lie{"ReservedField", 64, reserved_head()},
        Lie{"LeavesInTheMiddleOfAFrame", 128 | shm::kLastWord, head_of(1, 65)},
        Lie{"SkipsMoreThanItWrote", shm::kRingBytes, head_of_type(FrameType{shm::kSkipType})},
        Lie{"PayloadBeyondTheLimit", shm::kRingBytes, head_of(1, kMaxFramePayload + 1)},
        Lie{"PayloadOfAllBits", shm::kRingBytes, head_of(1, 0xffffffff)}),
    [](const auto& one) { return one.param.name; });

TEST(Ring, RefusesAFrameThatGoesOverTheEndOfTheRing) {
  RingRanks ranks(2);
  Regions& liar = ranks.regions(0);
  ASSERT_TRUE(os::populate(liar.ring(1), shm::kRingBytes).ok());
  constexpr std::size_t kFrame = sizeof(FrameHeader) + 65536;
  constexpr std::size_t kFrames = shm::kRingBytes / kFrame;
  for (std::size_t i = 0; i <= kFrames; ++i) put(liar.ring(1) + i * kFrame, head_of(1, 65536));
  liar.control().ring_counters(1).written = shm::kRingBytes;
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).lost(0); }, 0));
  expect_lost(ranks.sink(1), 0, Errc::refused);
  EXPECT_EQ(ranks.sink(1).received(0), kFrames);
}

TEST(Ring, RefusesAPeerThatTookWhatWasNotSent) {
  RingRanks ranks(2);
  fill(ranks, kMaxFramePayload);
  ranks.regions(1).control().ring_counters(0).taken = shm::kRingBytes * 4;
  EXPECT_TRUE(ranks.at(0).can_send(1));
  ranks.at(0).poll();
  expect_lost(ranks.sink(0), 1, Errc::refused);
}

TEST(Ring, SurvivesAnyBytes) {
  // Half of the heads are made plausible, or hardly any would get past the first.
  constexpr int kRounds = kSanitized ? 20 : 100;
  std::size_t accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    RingRanks ranks(9);
    for (int liar = 1; liar < 9; ++liar) {
      std::mt19937_64 random(static_cast<std::uint64_t>(round * 9 + liar));
      Regions& regions = ranks.regions(liar);
      std::byte* const ring = regions.ring(0);
      ASSERT_TRUE(os::populate(ring, shm::kRingBytes).ok());
      const std::uint64_t written = random() % (shm::kRingBytes / 64 + 1) * 64;
      for (std::uint64_t at = 0; at < written && at < 64 * 1024; at += 8) {
        const std::uint64_t word = random();
        std::memcpy(ring + at, &word, sizeof word);
      }
      for (std::uint64_t at = 0; at + 64 <= written && random() % 8 != 0;) {
        FrameHeader header =
            head_of(random(), random() % 3 == 0 ? random() % 140'000 : random() % 300);
        header.type =
            random() % 9 == 0 ? shm::kSkipType : static_cast<std::uint8_t>(1 + random() % 7);
        put(ring + at, header);
        at += (64 + header.payload_bytes + 63) / 64 * 64;
      }
      regions.control().ring_counters(0).written = written | (random() % 4 == 0 ? 1 : 0);
    }
    for (int i = 0; i < 8; ++i) ranks.at(0).poll();
    EXPECT_FALSE(ranks.at(0).poll()) << "round " << round << ": something moves for ever";
    for (int liar = 1; liar < 9; ++liar) accepted += ranks.sink(0).received(liar);
  }
  EXPECT_GT(accepted, static_cast<std::size_t>(kRounds)) << "no head was plausible";
}

/// A rank that is driven by a thread of its own and sleeps as a driver does when nothing moves.
class Sleeper {
 public:
  Sleeper(RingRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}

  /// Until `act` says that it is done; false if a wake-up was lost. `act` sets `moved`.
  bool run(const std::function<bool(bool& moved)>& act) {
    std::atomic<std::uint32_t>& park = ranks_.park(rank_);
    for (;;) {
      bool moved = false;
      if (act(moved)) return true;
      if (ranks_.at(rank_).poll() || moved) continue;
      park.store(1, std::memory_order_seq_cst);
      __sync_synchronize();  // the publishers fence, too: publish_fence
      if (act(moved)) return true;
      if (ranks_.at(rank_).poll() || moved) continue;
      const auto before = std::chrono::steady_clock::now();
      os::futex_wait(park, 1, std::chrono::seconds(5), true);
      if (std::chrono::steady_clock::now() - before > std::chrono::seconds(4)) return false;
    }
  }

 private:
  RingRanks& ranks_;
  int rank_;
};

class RingTraffic : public testing::TestWithParam<int> {};

TEST_P(RingTraffic, LosesNoFrameAndNoWakeUp) {
  const int size = GetParam();
  constexpr std::size_t kFrames = kSanitized ? 200 : 2000;
  RingRanks ranks(size);
  const auto bytes_of = [](int from, int to, std::size_t i) {
    std::mt19937 random(static_cast<unsigned>(i * 64 + static_cast<std::size_t>(from * 8 + to)));
    const unsigned kind = random() % 16;
    return static_cast<std::size_t>(kind == 0  ? random() % (kMaxFramePayload + 1)
                                    : kind < 4 ? random() % 5000
                                               : random() % 200);
  };
  std::atomic<int> lost{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<std::size_t> sent(static_cast<std::size_t>(size), 0);
      const bool woken = Sleeper(ranks, rank).run([&](bool& moved) {
        bool done = true;
        for (int peer = 0; peer < size; ++peer) {
          if (peer == rank) continue;
          std::size_t& next = sent[static_cast<std::size_t>(peer)];
          for (int burst = 0; burst < 7 && next < kFrames && ranks.at(rank).can_send(peer);
               ++burst) {
            (void)send_either(ranks, rank, peer, next, bytes_of(rank, peer, next));
            ++next;
            moved = true;
          }
          done = done && next == kFrames && ranks.sink(rank).received(peer) == kFrames;
        }
        return done;
      });
      if (!woken) ++lost;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lost, 0) << "ranks slept although there was something to do";
  for (int to = 0; to < size; ++to) {
    for (int from = 0; from < size; ++from) {
      if (from == to) continue;
      const auto& frames = ranks.sink(to).peers[from].frames;
      ASSERT_EQ(frames.size(), kFrames);
      for (std::size_t i = 0; i < kFrames; ++i) {
        ASSERT_TRUE(same(frames[i].header, head_of(i, bytes_of(from, to, i))));
        ASSERT_TRUE(frames[i].payload == payload_of(i, bytes_of(from, to, i)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, RingTraffic,
                         testing::ValuesIn(tutti::test::world_sizes_of_several()));

}  // namespace
}  // namespace tutti::transport::test
