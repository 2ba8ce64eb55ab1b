#include "engine/lost_ranks.hpp"

#include "bare_groups.hpp"
#include "engine/detector_times.hpp"
#include "noting_transport.hpp"

// When a rank counts as lost, without an engine: rank 0 of a world, 1 and 2 on other hosts, 3 on
// its own.
namespace tutti::engine {
namespace {

constexpr int kWorld = 4;

class LostRanksTest : public BareGroupsTest, private FailurePropagation::Operations {
 protected:
  LostRanksTest() { groups_.world().host_of = {0, 1, 2, 0}; }

  void end_all(Group& /*group*/) noexcept override {}
  static Outcome reset() { return {Errc::peer_lost, "connection reset"}; }
  /// Something comes from this peer, so it can be asked.
  void use(int peer) { channel_.arriving(peer, transport::FrameHeader{}); }
  int sent(transport::FrameType type) {
    channel_.flush_control();
    return transport_.frames(type);
  }
  /// The last frame, which is a ping or a pong.
  template <class Frame>
  Frame last() {
    channel_.flush_control();
    return transport::decode<Frame>(transport_.sent.back());
  }
  static void expect_cause(const Group& group, int culprit, const std::string& part) {
    ASSERT_TRUE(group.broken);
    EXPECT_EQ(group.cause.culprit(), culprit);
    expect_text(group.cause, part);
  }
  /// Rank 1 does not answer, and rank 2 is asked.
  void begin_inquiry() {
    transport_.unanswered = 1;
    use(2);
    lost_.connection_ended(1, reset(), true);
  }

  verify::sim::Memory memory_{{0, 1, 2, 0}};
  BareGroups groups_{memory_, 0, kWorld};
  NotingTransport transport_;
  std::vector<transport::Transport*> transports_{nullptr, &transport_, &transport_, nullptr};
  MessageChannel channel_{(groups_.world().transports = transports_)};
  FailureDetector detector_{groups_.world(), channel_};
  FailurePropagation propagation_{*groups_.world().regions, groups_.by_id(), kWorld, channel_,
                                  *this};
  LostRanks lost_{groups_.world(), groups_.by_id(), channel_, detector_, propagation_};
  Group& group_ = groups_.make(7);
  Group& other_ = groups_.make(8);
};

TEST_F(LostRanksTest, ALossBreaksAllGroupsOfTheRank) {
  other_.members[1].global = -1;  // it is no member of this one
  lost_.connection_ended(1, reset(), true);
  expect_cause(group_, 1, "group 'group 7': lost rank 1: connection reset");
  EXPECT_FALSE(other_.broken);
  EXPECT_TRUE(channel_.is_lost(1));
}

TEST_F(LostRanksTest, AGracefulEndBreaksNothing) {
  lost_.connection_ended(1, Outcome(Errc::peer_left, "it left"), true);
  EXPECT_FALSE(group_.broken);
  EXPECT_TRUE(channel_.has_left(1));
}

TEST_F(LostRanksTest, ARankThatWasOnlyAskedMayHaveEnded) {
  detector_.ask_doing(group_, 1);
  channel_.flush_control();
  lost_.connection_ended(1, reset(), true);
  EXPECT_FALSE(group_.broken);
  EXPECT_TRUE(channel_.has_left(1));
}

TEST_F(LostRanksTest, WithoutMemoryOfOurOwnWeAreToBlame) {
  lost_.connection_ended(1, Outcome(Errc::resource, "no memory"), true);
  expect_cause(group_, 0, "lost rank 1: no memory");
}

TEST_F(LostRanksTest, ARankThatAnswersNobodyIsLostALittleLater) {
  begin_inquiry();
  EXPECT_EQ(sent(transport::FrameType::ping), 1);
  EXPECT_EQ(last<transport::PingFrame>().unreached_plus_1, 2U);
  lost_.tick(bare_now + kWitnessTime / 2);
  EXPECT_FALSE(group_.broken);
  lost_.tick(bare_now + kWitnessTime);
  expect_cause(group_, 1, "lost rank 1: connection reset");
}

TEST_F(LostRanksTest, TheErrorSaysThatAnotherRankReachesIt) {
  begin_inquiry();
  transport::PongFrame pong{7};
  pong.reaches_plus_1 = 99;
  lost_.on_reached(group_, 2, pong);
  EXPECT_FALSE(group_.broken) << "there is no such rank";
  pong.reaches_plus_1 = 2;
  lost_.on_reached(group_, 2, pong);
  expect_cause(group_, 1, "only rank 0 has lost it, and rank 2 still reaches both: connection");
  lost_.on_reached(other_, 2, pong);  // the inquiry is over
}

TEST_F(LostRanksTest, NobodyIsAskedThatCannotTell) {
  transport_.unanswered = 1;
  lost_.connection_ended(1, reset(), true);  // nothing has come from rank 2; rank 3 is on our host
  EXPECT_TRUE(group_.broken);
  EXPECT_EQ(sent(transport::FrameType::ping), 0);
}

TEST_F(LostRanksTest, WithoutTicksNobodyIsAsked) {
  transport_.unanswered = 1;
  use(2);
  lost_.connection_ended(1, reset(), false);
  EXPECT_TRUE(group_.broken);
}

TEST_F(LostRanksTest, AnswersOnceTheOtherRankHasAnswered) {
  transport::PingFrame ping{7};
  ping.unreached_plus_1 = 3;
  lost_.on_question(group_, 1, ping);
  EXPECT_EQ(sent(transport::FrameType::ping), 1) << "rank 2 is asked";
  EXPECT_EQ(sent(transport::FrameType::pong), 0);
  lost_.on_answer(other_, 2);
  EXPECT_EQ(sent(transport::FrameType::pong), 0) << "in another group";
  lost_.on_answer(group_, 2);
  EXPECT_EQ(sent(transport::FrameType::pong), 1);
  EXPECT_EQ(last<transport::PongFrame>().reaches_plus_1, 3U);
  lost_.on_answer(group_, 2);
  EXPECT_EQ(sent(transport::FrameType::pong), 1) << "once";
}

TEST_F(LostRanksTest, QuestionsAboutTheAskerOrOurHostGetNoAnswer) {
  for (const std::uint64_t about : {1U, 2U, 4U, 99U}) {  // us, the asker, our host, nobody
    transport::PingFrame ping{7};
    ping.unreached_plus_1 = about;
    lost_.on_question(group_, 1, ping);
  }
  EXPECT_EQ(sent(transport::FrameType::ping), 0);
}

TEST_F(LostRanksTest, ANewGroupWithALostMemberIsBroken) {
  lost_.connection_ended(1, reset(), true);
  Group& late = groups_.make(9);
  lost_.check_new_group(late);
  expect_cause(late, 1, "group 'group 9': rank 1 was lost before the group was made");
}

TEST_F(LostRanksTest, AProcessThatHasLeftBeforeItEndedIsNotLost) {
  const auto local = groups_.world().local_of[3];
  // release: pairs with LostRanks::process_ended.
  memory_.regions(3).control().words().left.store(1, std::memory_order_release);
  lost_.process_ended(local);
  EXPECT_FALSE(group_.broken);
  memory_.regions(3).control().words().left.store(0, std::memory_order_release);  // same
  lost_.process_ended(local);
  expect_cause(group_, 3, "lost rank 3: its process died");
}

}  // namespace
}  // namespace tutti::engine
