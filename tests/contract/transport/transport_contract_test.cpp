#include <array>

#include "contract/transport/ring_fixture.hpp"
#include "contract/transport/tcp_fixture.hpp"

// The contract of every transport.
namespace tutti::transport::test {
namespace {

struct Promises {
  const char* label;
  const char* name;
  std::unique_ptr<Fixture> (*make)(int ranks);
  int first_contacts;
  bool detects_death;  ///< by itself; else the engine is told otherwise
  bool queues;         ///< payloads may be read after send has returned
};
void PrintTo(const Promises& one, std::ostream* out) { *out << one.label; }

template <bool kEncrypted>
std::unique_ptr<Fixture> make_tcp(int ranks) {
  return std::make_unique<TcpFixture>(ranks, kEncrypted);
}
std::unique_ptr<Fixture> make_ring(int ranks) { return std::make_unique<RingFixture>(ranks); }

class TransportContract : public testing::TestWithParam<Promises> {
 protected:
  static std::unique_ptr<Fixture> make(int ranks) { return GetParam().make(ranks); }
};
INSTANTIATE_TEST_SUITE_P(Every, TransportContract,
                         testing::Values(Promises{"Ring", "ring", make_ring, 50, false, false},
                                         Promises{"Tcp", "tcp", make_tcp<false>, 1000, true, true},
                                         Promises{"Tls", "tcp", make_tcp<true>, 200, true, true}),
                         [](const auto& one) { return one.param.label; });

std::vector<std::size_t> all_sizes() {
  std::vector<std::size_t> sizes = {0, 1, 7, 8, 63, 64, 65, 4095, 4096, 4097};
  for (const std::size_t around : {16UL * 1024, 64UL * 1024, 128UL * 1024}) {
    for (const std::size_t less : {65UL, 64UL, 1UL, 0UL}) sizes.push_back(around - less);
  }
  std::vector<std::size_t> both = sizes;
  both.insert(both.end(), sizes.rbegin(), sizes.rend());
  return both;
}

TEST_P(TransportContract, DeliversAllSizesInOrder) {
  Ranks ranks(make(2));
  EXPECT_STREQ(ranks.at(0).name(), GetParam().name);
  Stream stream{0, 1, all_sizes()};
  ASSERT_TRUE(deliver(ranks, stream));
  stream.check(ranks);
}

TEST_P(TransportContract, GoesBothWaysAtOnce) {
  Ranks ranks(make(2));
  const std::vector<std::size_t> sizes(64, kMaxFramePayload);
  std::array both{Stream{0, 1, sizes}, Stream{1, 0, sizes}};
  ASSERT_TRUE(deliver(ranks, both));
  for (const Stream& stream : both) stream.check(ranks);
}

TEST_P(TransportContract, ServesManyPeersAtOnce) {
  constexpr int kRanks = 6;
  Ranks ranks(make(kRanks));
  std::vector<Stream> streams;
  for (int from = 0; from < kRanks; ++from) {
    for (int to = 0; to < kRanks; ++to) {
      if (from != to) streams.push_back({from, to, {0, 8, 5000, 70000, 3, 131072, 64}});
    }
  }
  ASSERT_TRUE(deliver(ranks, streams));
  for (Stream& stream : streams) stream.check(ranks);
}

TEST_P(TransportContract, LosesNothingWhenBothSpeakFirst) {
  for (int round = 0; round < GetParam().first_contacts; ++round) {
    Ranks ranks(make(2));
    Stream there{0, 1, {8, 100}};
    Stream back{1, 0, {16, 200}};
    there.push(ranks);
    // Not always at the same moment, so that every order of the steps comes up.
    for (int i = 0; i < round % 7; ++i) ranks.at(round % 2).poll();
    back.push(ranks);
    ASSERT_TRUE(ranks.until([&] { return there.arrived(ranks) && back.arrived(ranks); }))
        << "round " << round;
    there.check(ranks);
    back.check(ranks);
    ASSERT_FALSE(ranks.sink(0).lost(1));
    ASSERT_FALSE(ranks.sink(1).lost(0));
  }
}

TEST_P(TransportContract, TellsWhenMemoryMayBeReused) {
  Ranks ranks(make(2));
  constexpr std::size_t kFrames = 200;
  // Few buffers, overwritten as soon as that is allowed.
  std::vector<std::vector<std::byte>> buffers(8, std::vector<std::byte>(kMaxFramePayload));
  std::vector<std::uint64_t> busy(buffers.size(), 0);
  const auto size_of = [](std::size_t i) { return (i * 7919) % kMaxFramePayload; };
  std::size_t next = 0;
  ASSERT_TRUE(ranks.until([&] {
    for (std::size_t b = 0; b < buffers.size(); ++b) {
      if (busy[b] != 0 && busy[b] <= ranks.sink(0).sent(1)) {
        std::ranges::fill(buffers[b], std::byte{0xdd});
        busy[b] = 0;
      }
      if (busy[b] != 0 || next == kFrames || !ranks.at(0).can_send(1)) continue;
      const auto payload = payload_of(next, size_of(next));
      std::ranges::copy(payload, buffers[b].begin());
      busy[b] = ranks.try_send(0, 1, head_of(next, payload.size()), buffers[b].data());
      ++next;
    }
    return ranks.sink(1).received(0) == kFrames && ranks.sink(0).sent(1) == kFrames;
  }));
  const auto& frames = ranks.sink(1).peers[0].frames;
  for (std::size_t i = 0; i < kFrames; ++i)
    ASSERT_TRUE(frames[i].payload == payload_of(i, size_of(i))) << i;
  const auto& tokens = ranks.sink(0).peers[1].sent;
  EXPECT_TRUE(std::ranges::is_sorted(tokens));
  EXPECT_EQ(tokens.back(), kFrames);
}

TEST_P(TransportContract, PushesBackWhenThePeerDoesNotTake) {
  Ranks ranks(make(2));
  Stream first{0, 1, {1}};
  ASSERT_TRUE(deliver(ranks, first));
  // Rank 1 does not poll: rank 0 must be stopped long before 256 MiB.
  const std::vector<std::byte> payload = payload_of(1, kMaxFramePayload);
  const std::size_t handed = ranks.send_until_full(0, 1, payload);
  EXPECT_LT(handed, 2048U);
  EXPECT_FALSE(ranks.sink(0).lost(1));
  // Then everything arrives, and there is room again.
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == 1 + handed; }));
  ASSERT_TRUE(ranks.until([&] { return ranks.at(0).can_send(1); }));
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(0).sent(1) == ranks.last_token(0, 1); }));
  for (std::size_t i = 1; i <= handed; ++i)
    ASSERT_TRUE(ranks.sink(1).peers[0].frames[i].payload == payload) << i;
}

TEST_P(TransportContract, KeepsPayloadsThatTheCallerWantsBack) {
  Ranks ranks(make(2));
  Stream first{0, 1, {1}};
  ASSERT_TRUE(deliver(ranks, first));
  std::deque<std::vector<std::byte>> memory;
  const auto payload = [&](std::size_t i) -> const auto& {
    return memory.emplace_back(payload_of(i, kMaxFramePayload - i % 100));
  };
  ASSERT_LT(ranks.send_until_full(0, 1, payload), 2048U);
  if (GetParam().queues) {
    ASSERT_LT(ranks.sink(0).sent(1), ranks.last_token(0, 1)) << "nothing is queued: tests nothing";
  }
  ranks.at(0).keep_payloads(1);
  ranks.at(0).keep_payloads(1);  // twice does no harm
  std::vector<std::size_t> sizes;
  for (auto& bytes : memory) {
    sizes.push_back(bytes.size());
    std::ranges::fill(bytes, std::byte{0xdd});
  }
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).received(0) == 1 + sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    ASSERT_TRUE(ranks.sink(1).peers[0].frames[i + 1].payload == payload_of(i, sizes[i])) << i;
}

TEST_P(TransportContract, TellsThatAPeerHasLeftAfterItsLastFrame) {
  Ranks ranks(make(3));
  Stream warm{1, 0, {1}};
  ASSERT_TRUE(deliver(ranks, warm));
  Stream stream{0, 1, {100, 131072, 0, 8}};
  Stream other{2, 1, {5}};
  stream.push(ranks);
  other.push(ranks);
  ASSERT_TRUE(ranks.leaves_until([&] { return ranks.sink(1).lost(0) && other.arrived(ranks); }));
  stream.check(ranks);
  ASSERT_EQ(ranks.sink(1).peers[0].lost.size(), 1U);
  expect_lost(ranks.sink(1), 0, Errc::peer_left);
  EXPECT_FALSE(ranks.sink(1).lost(2));
}

TEST_P(TransportContract, TellsThatAPeerHasDiedOnce) {
  if (!GetParam().detects_death) GTEST_SKIP() << "others tell this transport's engine of death";
  Ranks ranks(make(2));
  Stream stream{0, 1, {100, 5000}};
  ASSERT_TRUE(deliver(ranks, stream));
  ranks.kill(0);
  ASSERT_TRUE(ranks.until([&] { return ranks.sink(1).lost(0); }));
  expect_lost(ranks.sink(1), 0, Errc::peer_lost, "rank 0");
  EXPECT_EQ(ranks.sink(1).peers[0].lost[0].culprit(), 0);
  // A lost peer takes and drops.
  const std::vector<std::byte> payload(1000);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(ranks.at(1).can_send(0));
    ranks.try_send(1, 0, head_of(1, payload.size()), payload.data());
    ranks.at(1).poll();
  }
  EXPECT_EQ(ranks.sink(1).peers[0].lost.size(), 1U);
}

TEST_P(TransportContract, DropsAPeerWhoseFrameIsRefused) {
  Ranks ranks(make(3));
  ranks.sink(1).refused.insert(2);
  Stream stream{0, 1, {8, 8, 8, 8}};
  Stream other{2, 1, {8, 8}};
  ASSERT_TRUE(ranks.until([&] {
    stream.push(ranks);
    other.push(ranks);
    return ranks.sink(1).lost(0) && other.arrived(ranks);
  }));
  EXPECT_EQ(ranks.sink(1).received(0), 2U);
  expect_lost(ranks.sink(1), 0, Errc::refused);
  EXPECT_FALSE(ranks.sink(1).lost(2));
}

}  // namespace
}  // namespace tutti::transport::test
