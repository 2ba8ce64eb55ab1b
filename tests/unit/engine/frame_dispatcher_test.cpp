#include "engine/frame_dispatcher.hpp"

#include "engine_parts.hpp"

// Which part gets a frame, without an engine. Rank 0 of three; rank 2 is played by the test.
namespace tutti::engine {
namespace {

using namespace transport;

class FrameDispatcherTest : public EnginePartsTest {
 protected:
  FrameDispatcherTest() : EnginePartsTest("all_reduce:exchange") {}

  /// Rank 2 says something. True unless it was refused.
  bool hear(const FrameHeader& header, const std::string& payload = {}) {
    const std::span<std::byte> into = dispatcher_.on_header(2, header);
    if (into.empty()) return false;
    std::ranges::copy(std::as_bytes(std::span(payload)), into.begin());
    dispatcher_.on_frame(2, header);
    return true;
  }
  static FrameHeader with_payload(FrameHeader header, const std::string& payload) {
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    return header;
  }
  bool is_held(std::uint64_t group) {
    HeldFrames& held = first_.channel.held(2);
    return held.find(FrameType::want, group, 1) != held.end();
  }
  /// The answer to the last ping.
  PongFrame pong() {
    EXPECT_GT(first_.sent(FrameType::pong), 0);
    return decode<PongFrame>(first_.transport.sent.back());
  }

  FrameDispatcher dispatcher_{first_.world.transports,
                              {first_.groups, first_.channel, first_.propagation, first_.detector,
                               first_.lost, first_.agreement, first_.operations, first_.p2p}};
  Group& group_ = first_.make(7, {0, 2});
  std::vector<float> data_{1, 2};
};

TEST_F(FrameDispatcherTest, PollsEachTransportOnceAndIsItsSink) {
  EXPECT_THAT(dispatcher_.transports(), testing::ElementsAre(&first_.transport));
  EXPECT_EQ(&first_.transport.sink(), &dispatcher_);
  NotingTransport other;
  Transport* const transports[] = {&other, nullptr, &first_.transport, &other};
  FrameDispatcher dispatcher(
      transports, {first_.groups, first_.channel, first_.propagation, first_.detector, first_.lost,
                   first_.agreement, first_.operations, first_.p2p});
  EXPECT_THAT(dispatcher.transports(), testing::ElementsAre(&other, &first_.transport));
  EXPECT_FALSE(dispatcher.poll());
}

TEST_F(FrameDispatcherTest, TheDataOfAnOperationIsPlacedInIt) {
  first_.submit(group_, Kind::all_reduce, data_);
  const Op& op = group_.window.at(1);
  DataFrame data{group_.id, 1, op.fingerprint, 0, op.plan->code, 8, true};
  const float theirs[] = {10, 20};
  ASSERT_TRUE(hear(encode(data), {reinterpret_cast<const char*>(theirs), sizeof(theirs)}));
  EXPECT_TRUE(dispatcher_.poll()) << "our frame is sent";
  first_.operations.advance_all();
  EXPECT_FALSE(first_.operations.busy());
  EXPECT_EQ(data_, (std::vector<float>{11, 22}));
}

TEST_F(FrameDispatcherTest, DataOfAnotherCallBreaksTheGroup) {
  first_.submit(group_, Kind::all_reduce, data_);
  Collective other{.kind = Kind::barrier, .input = {}, .output = {}};
  DataFrame data{group_.id, 1, 99, 0, group_.plans->find(other).code, 8, true};
  ASSERT_TRUE(hear(encode(data), std::string(8, '\0')));
  expect_cause(group_, Errc::disagreement, std::nullopt,
               "but rank 1 (global rank 2) called barrier()");
}

TEST_F(FrameDispatcherTest, FramesOfOperationsToComeAreHeld) {
  EXPECT_TRUE(hear(encode(WantFrame{group_.id, 1})));
  EXPECT_TRUE(hear(encode(CreditFrame{group_.id, 1, 1})));
  EXPECT_TRUE(hear(encode(WantFrame{9, 1}))) << "it has made the group before us";
  EXPECT_EQ(first_.sent(FrameType::credit), 0);
  for (const auto& [group, held] : {std::pair{group_.id, true}, {9, true}, {10, false}})
    EXPECT_EQ(is_held(group), held) << group;
  first_.submit(group_, Kind::all_reduce, data_);
  EXPECT_TRUE(hear(encode(WantFrame{group_.id, 1})));
  EXPECT_GT(first_.sent(FrameType::credit), 0) << "now it runs";
}

TEST_F(FrameDispatcherTest, FramesOfClosedGroupsAreDroppedAndThoseOfOthersRefused) {
  first_.groups.note_closed(9);
  EXPECT_TRUE(hear(encode(WantFrame{9, 1})));
  EXPECT_TRUE(hear(with_payload(encode(AbortFrame{9, 1, 0}), "enough"), "enough"));
  EXPECT_FALSE(is_held(9));
  Group& without = first_.make(10, {0, 1});
  DataFrame data{10, 1, 99, 0, {}, 8, true};
  EXPECT_FALSE(hear(encode(data), std::string(8, '\0'))) << "it is no member";
  EXPECT_TRUE(hear(with_payload(encode(AbortFrame{10, 1, 0}), "enough"), "enough"));
  EXPECT_FALSE(without.broken);
}

TEST_F(FrameDispatcherTest, AnAbortBreaksTheGroup) {
  const AbortFrame abort{group_.id, static_cast<std::uint64_t>(Errc::timeout), 1};
  EXPECT_TRUE(hear(with_payload(encode(abort), "rank 0 is late"), "rank 0 is late"));
  expect_cause(group_, Errc::timeout, 0, "rank 0 is late");
}

TEST_F(FrameDispatcherTest, APingIsAnsweredWithHowFarWeAre) {
  first_.submit(group_, Kind::all_reduce, data_);
  PingFrame ping{group_.id};
  ping.asks_doing = true;
  EXPECT_TRUE(hear(encode(ping)));
  EXPECT_EQ(pong().last_seq, 1U);
  EXPECT_EQ(pong().passed, 0U);
  EXPECT_TRUE(pong().tells_doing);
  EXPECT_EQ(pong().moved.sent, 8U);
  const std::string doing(reinterpret_cast<const char*>(first_.transport.last_payload.data()),
                          first_.transport.last_payload.size());
  EXPECT_THAT(doing, testing::StartsWith("group 'group 7', operation 1 all_reduce("));
  first_.groups.note_closed(9);
  EXPECT_TRUE(hear(encode(PingFrame{9})));
  EXPECT_TRUE(pong().given_up);
}

TEST_F(FrameDispatcherTest, APingOfAnotherCallBreaksTheGroup) {
  first_.submit(group_, Kind::all_reduce, data_);
  Collective other{.kind = Kind::barrier, .input = {}, .output = {}};
  EXPECT_TRUE(hear(encode(PingFrame{group_.id, 1, 99, group_.plans->find(other).code})));
  expect_cause(group_, Errc::disagreement, std::nullopt, "called barrier()");
}

TEST_F(FrameDispatcherTest, APongIsNoted) {
  PongFrame pong{group_.id, 5, false, 4};
  EXPECT_TRUE(hear(encode(pong)));
  EXPECT_EQ(group_.answer(1).last_seq, 5U);
  EXPECT_EQ(group_.answer(1).passed, 4U);
  EXPECT_FALSE(group_.member(1).given_up);
  pong.given_up = true;
  EXPECT_TRUE(hear(encode(pong)));
  EXPECT_TRUE(group_.member(1).given_up);
}

TEST_F(FrameDispatcherTest, ALostPeerBreaksItsGroups) {
  Group& without = first_.make(10, {0, 1});
  dispatcher_.on_lost(2, Outcome(Errc::peer_lost, "connection reset"));
  expect_cause(group_, Errc::peer_lost, 1, "lost rank 1 (global rank 2): connection reset");
  EXPECT_FALSE(without.broken);
}

}  // namespace
}  // namespace tutti::engine
