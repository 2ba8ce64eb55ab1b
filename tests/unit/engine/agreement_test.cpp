#include "engine/agreement.hpp"

#include "bare_groups.hpp"
#include "engine/detector_times.hpp"
#include "noting_transport.hpp"

// Agreement without an engine: rank 0 of a group, 1 on its host, 2 on another one.
namespace tutti::engine {
namespace {

using std::chrono::seconds;
using namespace transport;

constexpr std::uint64_t kAgreed = 5;  // the operation that runs

class AgreementTest : public BareGroupsTest {
 protected:
  AgreementTest() {
    call_.kind = Kind::broadcast;
    call_.root = 1;
    call_.output = TensorView(data_.data(), DType::float32, data_.size());
    call_.input = call_.output;
    group_.window.skip_to(kAgreed - 1);
    group_.window.begin_next(plans_.find(call_));
    op_.timer.deadline = bare_now + seconds(100);
    op_.agreement.begin(true);
    EXPECT_TRUE(find_block(group_, group_.member(1)));
    for (std::uint64_t seq = 1; seq <= kAgreed; ++seq) {
      show(*group_.block, seq, op_.plan->code);
      show(*others_.block, seq, op_.plan->code);
    }
  }
  static void show(shm::GroupBlock& block, std::uint64_t seq, const call::CallCode& code) {
    shm::record_call(block.call(seq), code);
    block.line(seq).epoch.store(seq);
  }
  /// The same call with another root.
  call::CallCode other_code() {
    Collective other = call_;
    other.root = 2;
    return plans_.find(other).code;
  }
  TokenFrame token(std::uint64_t round) const {
    return {group_.id, kAgreed, op_.fingerprint, round, op_.plan->code};
  }
  int sent(FrameType type) {
    channel_.flush_control();
    return transport_.frames(type);
  }
  struct Past {
    std::uint64_t seq;
    call::CallCode code;
  };
  static std::vector<std::byte> history(const std::vector<Past>& calls) {
    const auto bytes = std::as_bytes(std::span(calls));
    return {bytes.begin(), bytes.end()};
  }
  static void expect_named(const Agreement::Cause& cause, std::uint64_t seq, int rank) {
    expect_text(cause, "as operation " + std::to_string(seq) + " rank 0 called broadcast(");
    expect_text(cause, "but rank " + std::to_string(rank) + " called broadcast(");
    EXPECT_EQ(cause->code(), Errc::disagreement);
  }

  verify::sim::Memory memory_{{0, 0, 1}};
  BareGroups groups_{memory_, 0, 3};
  BareGroups of_rank_1_{memory_, 1, 3};
  NotingTransport transport_;
  std::vector<Transport*> transports_{nullptr, &transport_, &transport_};
  MessageChannel channel_{std::span<Transport* const>(transports_)};
  Agreement agreement_{groups_.world(), channel_};
  PlanCache plans_{0, plan::make_topology({0, 0, 1}), 8, ""};
  Group& group_ = groups_.make(7);
  Group& others_ = of_rank_1_.make(7);
  Op& op_ = group_.window.at(kAgreed);
  Collective call_;
  std::vector<float> data_ = std::vector<float>(3);
};

TEST_F(AgreementTest, ACallThatDiffersIsNamedWithBothRanksCalls) {
  expect_named(agreement_.differs(op_, 2, other_code(), kAgreed), kAgreed, 2);
  EXPECT_EQ(sent(FrameType::history), 0) << "all is known";
}

TEST_F(AgreementTest, WhereTheCallsAreEqualTheOtherRankIsAskedForThoseBefore) {
  EXPECT_EQ(agreement_.differs(op_, 2, op_.plan->code, kAgreed), std::nullopt);
  EXPECT_EQ(sent(FrameType::history), 1);
  EXPECT_EQ(transport_.last_payload.size(), kAgreed * 32U);
  EXPECT_EQ(op_.agreement.disagreeing_rank, 2);
  EXPECT_EQ(agreement_.differs(op_, 2, other_code(), kAgreed), std::nullopt)
      << "the answer will tell";
  EXPECT_EQ(agreement_.check_history(op_, bare_now + kHistoryTime / 2), std::nullopt);
  expect_text(agreement_.check_history(op_, bare_now + kHistoryTime),
              "the calls of rank 0 and rank 2 before operation 5");
}

TEST_F(AgreementTest, ARankThatHasLeftIsNotAskedNorWaitedFor) {
  ASSERT_TRUE(agreement_.ask_history(op_, 2));
  channel_.set_left(2);
  EXPECT_NE(agreement_.check_history(op_, bare_now), std::nullopt);
  EXPECT_FALSE(agreement_.ask_history(op_, 2));
}

TEST_F(AgreementTest, ARankThatIsAskedNamesTheFirstCallThatDiffers) {
  const call::CallCode& ours = op_.plan->code;
  const auto told = history({{2, ours}, {3, other_code()}, {4, other_code()}, {5, ours}});
  expect_named(agreement_.on_history(group_, 2, kAgreed, told), 3, 2);
  // It lies further back.
  expect_text(agreement_.on_history(group_, 2, kAgreed, history({{5, ours}})),
              "before operation 5");
}

TEST_F(AgreementTest, AHistoryThatCannotBeOneIsDropped) {
  std::vector<std::byte> told = history({{5, other_code()}});
  told.pop_back();
  EXPECT_EQ(agreement_.on_history(group_, 2, kAgreed, told), std::nullopt);
  const std::vector<Past> many(9, {5, other_code()});
  EXPECT_EQ(agreement_.on_history(group_, 2, kAgreed, history(many)), std::nullopt);
  // Of operations that we have not.
  expect_text(
      agreement_.on_history(group_, 2, kAgreed, history({{0, other_code()}, {6, other_code()}})),
      "before operation 5");
}

TEST_F(AgreementTest, ARankOfOurHostShowsWhichCallDiffers) {
  show(*others_.block, 4, other_code());
  expect_named(agreement_.differs_in_lines(op_, 1), 4, 1);
  expect_named(agreement_.differs(op_, 1, op_.plan->code, kAgreed), 4, 1);
  EXPECT_EQ(sent(FrameType::history), 0);
}

TEST_F(AgreementTest, LinesAreComparedThoughTheCallGoesByMessages) {
  shm::Arrival& line = others_.block->line(kAgreed);
  line.fingerprint = op_.fingerprint;
  EXPECT_EQ(agreement_.compare_both_ways(op_), std::nullopt);
  line.fingerprint = op_.fingerprint + 1;
  show(*others_.block, kAgreed, other_code());
  expect_named(agreement_.compare_both_ways(op_), kAgreed, 1);
}

TEST_F(AgreementTest, TokensGoRoundBeforeTheOperationMayWrite) {
  EXPECT_TRUE(agreement_.advance(op_));
  EXPECT_EQ(sent(FrameType::token), 1);
  EXPECT_FALSE(agreement_.advance(op_)) << "the one of rank 2 is missing";
  EXPECT_EQ(agreement_.on_token(op_, 2, token(0)), std::nullopt);
  EXPECT_TRUE(agreement_.advance(op_));
  EXPECT_EQ(sent(FrameType::token), 2);
  EXPECT_FALSE(op_.agreement.has_all_tokens(3));
  EXPECT_EQ(agreement_.on_token(op_, 1, token(1)), std::nullopt);
  EXPECT_TRUE(agreement_.advance(op_));
  EXPECT_TRUE(op_.agreement.has_all_tokens(3));
}

TEST_F(AgreementTest, ATokenMayComeBeforeItsOperation) {
  channel_.held(2).push_control(encode(token(0)));
  EXPECT_EQ(agreement_.begin(op_), std::nullopt);
  EXPECT_TRUE(agreement_.advance(op_));
  EXPECT_EQ(sent(FrameType::token), 2) << "of both rounds";
}

TEST_F(AgreementTest, ATokenTellsAnotherCall) {
  TokenFrame other = token(0);
  ++other.fingerprint;
  other.call = other_code();
  channel_.held(2).push_control(encode(other));
  expect_named(agreement_.begin(op_), kAgreed, 2);
}

}  // namespace
}  // namespace tutti::engine
