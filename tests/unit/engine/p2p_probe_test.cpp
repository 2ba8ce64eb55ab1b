#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/p2p_matcher.hpp"
#include "p2p_engine.hpp"

// One engine of three: which probe finds which message, and what becomes of the message.
namespace tutti::engine {
namespace {

using std::chrono::seconds;
using transport::FrameHeader;
using transport::FrameType;

class P2PProbeTest : public P2PEngine {
 protected:
  std::uint64_t probe(Group& world, int from, int tag = 0) {
    return call(world, Kind::probe, from, tag, nullptr);
  }
  std::uint64_t look(Group& world, int from, int tag = 0) {
    return call(world, Kind::probe, from, tag, nullptr, std::chrono::nanoseconds(0));
  }
  std::uint64_t recv_probed(Group& world, Bytes& to, std::uint64_t probed) {
    Details details;
    details.probed = probed;
    return call(world, Kind::recv, 1, 0, &to, seconds(1), &details);
  }
  void message_from(int peer, std::uint64_t number, const Bytes& values, int tag = 0) {
    EXPECT_TRUE(P2PEngine::message_from(peer, number, values, tag));
  }
  /// The count that a probe tells; -1: it has found none.
  static int count_of(Group& world, std::uint64_t ticket) {
    const std::optional<ProbedMessage> found = Engine::probed(world, ticket);
    return found ? static_cast<int>(found->count) : -1;
  }
  /// Receives the next message without a probe, which must be here.
  Bytes next(Group& world, std::size_t count, int from, int tag = 0) {
    Bytes got(count);
    EXPECT_TRUE(done(world, recv(world, got, from, tag)));
    return got;
  }
};

TEST_F(P2PProbeTest, AMessageThatHasComeBelongsToItsProbe) {
  Group& world = group();
  message_from(1, 1, {1, 2, 3}, 7);
  message_from(1, 2, {4}, 7);
  EXPECT_EQ(count_of(world, look(world, 1, 8)), -1) << "another tag";
  EXPECT_EQ(count_of(world, look(world, 2, 7)), -1) << "another sender";
  const auto found = probe(world, 1, 7);
  ASSERT_TRUE(done(world, found));
  const std::optional<ProbedMessage> told = Engine::probed(world, found);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->source, 1);
  EXPECT_EQ(told->dtype, DType::uint8);
  EXPECT_EQ(told->count, 3U);
  EXPECT_EQ(next(world, 1, 1, 7), Bytes{4}) << "a recv gets the one behind it";
  Bytes got(3);
  EXPECT_TRUE(done(world, recv_probed(world, got, found)));
  EXPECT_EQ(got, (Bytes{1, 2, 3}));
  engine_.release(world, found);
  EXPECT_EQ(count_of(world, look(world, 1, 7)), -1) << "nothing was put back";
  EXPECT_FALSE(engine_.busy());
}

TEST_F(P2PProbeTest, AProbeThatWaitsGetsTheMessageInItsTurn) {
  Group& world = group();
  Bytes first(1);
  Bytes last(1);
  const auto before = recv(world, first, 1);
  const auto found = probe(world, kAnySource);
  const auto after = recv(world, last, 1);
  message_from(1, 1, {1});
  EXPECT_TRUE(done(world, before));
  EXPECT_FALSE(done(world, found));
  message_from(1, 2, {2});
  EXPECT_TRUE(done(world, found));
  EXPECT_FALSE(done(world, after));
  message_from(1, 3, {3});
  EXPECT_TRUE(done(world, after));
  EXPECT_EQ(first, Bytes{1});
  EXPECT_EQ(last, Bytes{3});
  Bytes got(1);
  EXPECT_TRUE(done(world, recv_probed(world, got, found)));
  EXPECT_EQ(got, Bytes{2});
}

TEST_F(P2PProbeTest, ALargeMessageIsAskedForByItsRecvOnly) {
  Group& world = group();
  const auto found = probe(world, 1);
  const std::size_t bytes = 2 * kEagerLimit;
  EXPECT_TRUE(hear(1, rts(1, bytes)));
  ASSERT_TRUE(done(world, found));
  EXPECT_EQ(count_of(world, found), static_cast<int>(bytes));
  EXPECT_EQ(transport_.frames(FrameType::cts), 0);
  Bytes got(bytes);
  const auto receiving = recv_probed(world, got, found);
  EXPECT_FALSE(done(world, receiving));
  EXPECT_EQ(transport_.frames(FrameType::cts), 1);
}

TEST_F(P2PProbeTest, MessagesArePutBackInTheOrderOfTheirSending) {
  Group& world = group();
  for (std::uint8_t i = 1; i <= 4; ++i) message_from(1, i, {i});
  const auto one = probe(world, 1);
  const auto two = probe(world, kAnySource);
  const auto three = probe(world, 1);
  EXPECT_EQ(next(world, 1, 1), Bytes{4});
  message_from(1, 5, {5});
  message_from(2, 1, {20});
  engine_.release(world, two);
  engine_.release(world, one);
  engine_.release(world, three);
  for (const int i : {1, 2, 3, 5})
    EXPECT_EQ(next(world, 1, kAnySource), Bytes{static_cast<std::uint8_t>(i)});
  EXPECT_EQ(next(world, 1, kAnySource), Bytes{20});
}

TEST_F(P2PProbeTest, AMessageThatIsPutBackGoesToTheFirstThatWaits) {
  Group& world = group();
  message_from(1, 1, {1, 2});
  const auto dropped = probe(world, 1);
  const auto second = probe(world, 1);
  Bytes got(2);
  const auto receiving = recv(world, got, kAnySource);
  EXPECT_FALSE(done(world, second));
  engine_.release(world, dropped);
  EXPECT_TRUE(done(world, second));
  EXPECT_EQ(count_of(world, second), 2);
  EXPECT_FALSE(done(world, receiving));
  engine_.release(world, second);
  EXPECT_TRUE(done(world, receiving));
  EXPECT_EQ(got, (Bytes{1, 2}));
}

// While the first message is with a probe, a second one must not be on its way into the buffer of
// the recv that gets the first one.
TEST_F(P2PProbeTest, AMessageThatIsPutBackDuringAnothersArrivalIsNotOverwritten) {
  Group& world = group();
  message_from(1, 1, {1, 2, 3, 4});
  const auto found = probe(world, 1);
  Bytes got(4);
  const auto receiving = recv(world, got, 1);
  const FrameHeader header = eager(2, 4);
  const std::span<std::byte> into = engine_.on_header(1, header);
  ASSERT_GE(into.size(), 4U);
  engine_.release(world, found);
  EXPECT_TRUE(done(world, receiving));
  for (std::size_t i = 0; i < 4; ++i) into[i] = std::byte{9};
  engine_.on_frame(1, header);
  EXPECT_EQ(got, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(next(world, 4, 1), (Bytes{9, 9, 9, 9}));
}

TEST_F(P2PProbeTest, MessagesToOneselfAreFoundToo) {
  Group& world = group();
  Bytes small{1, 2};
  Bytes large(2 * kEagerLimit, 3);
  const auto waiting = probe(world, 0);
  const auto first = call(world, Kind::send, 0, 0, &small);
  EXPECT_TRUE(done(world, waiting));
  EXPECT_TRUE(done(world, first));
  const auto second = call(world, Kind::send, 0, 0, &large);
  const auto found = look(world, 0);
  EXPECT_EQ(count_of(world, found), static_cast<int>(large.size()));
  EXPECT_FALSE(done(world, second)) << "it waits for its recv";
  small = {0, 0};
  Bytes got(2);
  EXPECT_TRUE(done(world, recv_probed(world, got, waiting)));
  EXPECT_EQ(got, (Bytes{1, 2}));
  Bytes all(large.size());
  EXPECT_TRUE(done(world, recv_probed(world, all, found)));
  EXPECT_TRUE(done(world, second));
  EXPECT_EQ(all, large);
}

TEST_F(P2PProbeTest, AGroupThatBreaksEndsProbesAndForgetsTheirMessages) {
  Group& world = group();
  message_from(1, 1, {1});
  const auto found = probe(world, 1);
  const auto waiting = probe(world, 2);
  engine_.break_group(world, Status(Errc::aborted, "stopped"));
  ASSERT_TRUE(engine_.is_done(world, waiting));
  EXPECT_EQ(engine_.outcome(world, waiting)->code(), Errc::aborted);
  Bytes got(1);
  EXPECT_EQ(engine_.outcome(world, recv_probed(world, got, found))->code(), Errc::aborted);
  engine_.release(world, found);
  engine_.release(world, waiting);
  EXPECT_FALSE(engine_.busy());
}

TEST_F(P2PProbeTest, ARankThatHasLeftIsMissed) {
  Group& world = group();
  const auto waiting = probe(world, 1);
  engine_.on_lost(1, Status(Errc::peer_left, "it left"));
  engine_.tick();
  ASSERT_TRUE(done(world, waiting));
  EXPECT_EQ(engine_.outcome(world, waiting)->code(), Errc::peer_left);
}

TEST_F(P2PProbeTest, ATicketThatHasNoMessageIsRefused) {
  Group& world = group();
  Bytes got(1);
  const auto nothing = look(world, 1);
  EXPECT_TRUE(done(world, nothing));
  EXPECT_EQ(engine_.outcome(world, recv_probed(world, got, nothing))->code(), Errc::internal);
}

}  // namespace
}  // namespace tutti::engine
