#include <gtest/gtest.h>

#include "engine/p2p_matcher.hpp"
#include "lone_engine.hpp"

// One engine of three: which probe finds which message, and what becomes of the message.
namespace tutti::engine {
namespace {

using std::chrono::seconds;
using namespace transport;

class P2PProbeTest : public P2PWorld {
 protected:
  std::uint64_t probe(int from, int tag = 0) {
    return call(world_, Kind::probe, from, tag, nullptr);
  }
  std::uint64_t look(int from, int tag = 0) {
    return call(world_, Kind::probe, from, tag, nullptr, std::chrono::nanoseconds(0));
  }
  std::uint64_t recv_probed(Bytes& to, std::uint64_t probed) {
    Details details;
    details.probed = probed;
    return call(world_, Kind::recv, 1, 0, &to, seconds(1), &details);
  }
  /// Receives what was probed.
  Bytes take(std::size_t count, std::uint64_t probed) {
    Bytes got(count);
    EXPECT_TRUE(done(world_, recv_probed(got, probed)));
    return got;
  }
  void message_from(int peer, std::uint64_t number, const Bytes& values, int tag = 0) {
    EXPECT_TRUE(P2PEngine::message_from(peer, number, values, tag));
  }
  /// The count that a probe tells; -1: it has found none.
  [[nodiscard]] int count_of(std::uint64_t ticket) const {
    const std::optional<ProbedMessage> found = Engine::probed(world_, ticket);
    return found ? static_cast<int>(found->count) : -1;
  }
};

TEST_F(P2PProbeTest, AMessageThatHasComeBelongsToItsProbe) {
  message_from(1, 1, {1, 2, 3}, 7);
  message_from(1, 2, {4}, 7);
  EXPECT_EQ(count_of(look(1, 8)), -1) << "another tag";
  EXPECT_EQ(count_of(look(2, 7)), -1) << "another sender";
  const auto found = probe(1, 7);
  ASSERT_TRUE(done(world_, found));
  const std::optional<ProbedMessage> told = Engine::probed(world_, found);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->source, 1);
  EXPECT_EQ(told->dtype, DType::uint8);
  EXPECT_EQ(told->count, 3U);
  EXPECT_EQ(next(world_, 1, 1, 7), Bytes{4}) << "a recv gets the one behind it";
  EXPECT_EQ(take(3, found), (Bytes{1, 2, 3}));
  engine_.release(world_, found);
  EXPECT_EQ(count_of(look(1, 7)), -1) << "nothing was put back";
  EXPECT_FALSE(engine_.busy());
}

TEST_F(P2PProbeTest, AProbeThatWaitsGetsTheMessageInItsTurn) {
  Bytes first(1);
  Bytes last(1);
  const auto before = recv(world_, first, 1);
  const auto found = probe(any_source);
  const auto after = recv(world_, last, 1);
  message_from(1, 1, {1});
  EXPECT_TRUE(done(world_, before));
  EXPECT_FALSE(done(world_, found));
  message_from(1, 2, {2});
  EXPECT_TRUE(done(world_, found));
  EXPECT_FALSE(done(world_, after));
  message_from(1, 3, {3});
  EXPECT_TRUE(done(world_, after));
  EXPECT_EQ(first, Bytes{1});
  EXPECT_EQ(last, Bytes{3});
  EXPECT_EQ(take(1, found), Bytes{2});
}

TEST_F(P2PProbeTest, ALargeMessageIsAskedForByItsRecvOnly) {
  const auto found = probe(1);
  const std::size_t bytes = 2 * kEagerLimit;
  EXPECT_TRUE(hear(1, rts(1, bytes)));
  ASSERT_TRUE(done(world_, found));
  EXPECT_EQ(count_of(found), static_cast<int>(bytes));
  EXPECT_EQ(transport_.frames(FrameType::cts), 0);
  Bytes got(bytes);
  const auto receiving = recv_probed(got, found);
  EXPECT_FALSE(done(world_, receiving));
  EXPECT_EQ(transport_.frames(FrameType::cts), 1);
}

TEST_F(P2PProbeTest, MessagesArePutBackInTheOrderOfTheirSending) {
  for (std::uint8_t i = 1; i <= 4; ++i) message_from(1, i, {i});
  const auto one = probe(1);
  const auto two = probe(any_source);
  const auto three = probe(1);
  EXPECT_EQ(next(world_, 1, 1), Bytes{4});
  message_from(1, 5, {5});
  message_from(2, 1, {20});
  engine_.release(world_, two);
  engine_.release(world_, one);
  engine_.release(world_, three);
  for (const int i : {1, 2, 3, 5}) {
    const auto found = look(1, any_tag);
    ASSERT_EQ(count_of(found), 1);
    EXPECT_EQ(Engine::probed(world_, found)->tag, 0);
    engine_.release(world_, found);
    EXPECT_EQ(next(world_, 1, any_source, i % 2 == 0 ? 0 : any_tag),
              Bytes{static_cast<std::uint8_t>(i)});
  }
  EXPECT_EQ(next(world_, 1, any_source), Bytes{20});
}

TEST_F(P2PProbeTest, AMessageThatIsPutBackGoesToTheFirstThatWaits) {
  message_from(1, 1, {1, 2});
  const auto dropped = probe(1);
  const auto second = probe(1);
  Bytes got(2);
  const auto receiving = recv(world_, got, any_source, any_tag);
  EXPECT_FALSE(done(world_, second));
  engine_.release(world_, dropped);
  EXPECT_TRUE(done(world_, second));
  EXPECT_EQ(count_of(second), 2);
  EXPECT_FALSE(done(world_, receiving));
  engine_.release(world_, second);
  EXPECT_TRUE(done(world_, receiving));
  EXPECT_EQ(got, (Bytes{1, 2}));
}

// While the first message is with a probe, a second one must not be on its way into the buffer of
// the recv that gets the first one.
TEST_F(P2PProbeTest, AMessageThatIsPutBackDuringAnothersArrivalIsNotOverwritten) {
  message_from(1, 1, {1, 2, 3, 4});
  const auto found = probe(1);
  Bytes got(4);
  const auto receiving = recv(world_, got, 1);
  const FrameHeader header = eager(2, 4);
  const std::span<std::byte> into = transport_.sink().on_header(1, header);
  ASSERT_GE(into.size(), 4U);
  engine_.release(world_, found);
  EXPECT_TRUE(done(world_, receiving));
  for (std::size_t i = 0; i < 4; ++i) into[i] = std::byte{9};
  transport_.sink().on_frame(1, header);
  EXPECT_EQ(got, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(next(world_, 4, 1), (Bytes{9, 9, 9, 9}));
}

TEST_F(P2PProbeTest, MessagesToOneselfAreFoundToo) {
  Bytes small{1, 2};
  Bytes large(2 * kEagerLimit, 3);
  const auto waiting = probe(0);
  const auto first = call(world_, Kind::send, 0, 0, &small);
  EXPECT_TRUE(done(world_, waiting));
  EXPECT_TRUE(done(world_, first));
  const auto second = call(world_, Kind::send, 0, 0, &large);
  const auto found = look(0);
  EXPECT_EQ(count_of(found), static_cast<int>(large.size()));
  EXPECT_FALSE(done(world_, second)) << "it waits for its recv";
  small = {0, 0};
  EXPECT_EQ(take(2, waiting), (Bytes{1, 2}));
  EXPECT_EQ(take(large.size(), found), large);
  EXPECT_TRUE(done(world_, second));
}

TEST_F(P2PProbeTest, AGroupThatBreaksEndsProbesAndForgetsTheirMessages) {
  message_from(1, 1, {1});
  const auto found = probe(1);
  const auto waiting = probe(2);
  engine_.break_group(world_, Outcome(Errc::aborted, "stopped"));
  EXPECT_EQ(error_of(world_, waiting), Errc::aborted);
  Bytes got(1);
  EXPECT_EQ(error_of(world_, recv_probed(got, found)), Errc::aborted);
  engine_.release(world_, found);
  engine_.release(world_, waiting);
  EXPECT_FALSE(engine_.busy());
}

TEST_F(P2PProbeTest, ARankThatHasLeftIsMissed) {
  const auto waiting = probe(1);
  transport_.sink().on_lost(1, Outcome(Errc::peer_left, "it left"));
  engine_.tick();
  settle();
  EXPECT_EQ(error_of(world_, waiting), Errc::peer_left);
}

TEST_F(P2PProbeTest, ATicketThatHasNoMessageIsRefused) {
  Bytes got(1);
  const auto nothing = look(1);
  EXPECT_TRUE(done(world_, nothing));
  EXPECT_EQ(error_of(world_, recv_probed(got, nothing)), Errc::internal);
}

}  // namespace
}  // namespace tutti::engine
