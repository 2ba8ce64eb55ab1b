#include "bare_groups.hpp"
#include "call/gpu_calls.hpp"
#include "engine/detector_times.hpp"
#include "engine/p2p_matcher.hpp"
#include "noting_transport.hpp"

// Deadlines of a P2PMatcher without an engine: rank 0 of a group,
// 1 on its host, 2 on another one.
namespace tutti::engine {
namespace {

using namespace std::chrono_literals;

class P2PDeadlines : public BareGroupsTest, private FailurePropagation::Operations {
 protected:
  explicit P2PDeadlines(const std::vector<int>& host_of = {0, 0, 1})
      : size_(static_cast<int>(host_of.size())), memory_(host_of) {
    BareGroups(memory_, 1, size_).make(7);
  }
  std::uint64_t recv(int from, std::chrono::seconds timeout = 10s) {
    const std::uint64_t ticket = matcher_.submit({.kind = Kind::recv,
                                                  .root = from,
                                                  .timeout = timeout,
                                                  .input = {},
                                                  .output = TensorView(data_)});
    matcher_.tick(bare_now);
    return ticket;
  }
  /// The cause at the deadline, and at the time that is given then.
  void wait() {
    bare_now = matcher_.next_deadline();
    matcher_.tick(bare_now);
  }
  [[nodiscard]] std::string cause() const {
    return group_.broken ? std::string(group_.cause.message()) : "nothing";
  }
  void expect_named(std::optional<int> culprit, const std::string& text) {
    EXPECT_EQ(group_.cause.culprit(), culprit);
    EXPECT_THAT(cause(), testing::HasSubstr(text));
  }
  int pings() {
    channel_.flush_control();
    return transport_.frames(transport::FrameType::ping);
  }
  void end_all(Group& /*group*/) noexcept override { matcher_.fail(); }

  int size_;
  verify::sim::Memory memory_;
  BareGroups groups_{memory_, 0, size_};
  NotingTransport transport_;
  std::vector<transport::Transport*> transports_{nullptr, &transport_,
                                                 &transport_};  // the last unused of two
  MessageChannel channel_{std::span<transport::Transport* const>(transports_)};
  FailureDetector detector_{groups_.world(), channel_};
  FailurePropagation propagation_{*groups_.world().regions, groups_.by_id(), size_, channel_,
                                  *this};
  CompletionQueue completions_;
  StallReporter stalls_{groups_.world(), detector_};
  P2PShared shared_{groups_.world(), channel_, detector_, stalls_, propagation_, completions_};
  Group& group_ = groups_.make(7);
  P2PMatcher matcher_{shared_, group_};
  std::vector<float> data_ = std::vector<float>(4);
};

TEST_F(P2PDeadlines, ARankThatIsStoppedIsNamedAtTheDeadline) {
  set_process_state(1, "stopped");
  recv(1);
  wait();
  EXPECT_EQ(bare_now - TimePoint(1h), 10s);
  expect_named(1, "rank 1 is stopped");
}

TEST_F(P2PDeadlines, ARankOfAnotherHostIsAskedFirst) {
  recv(2);
  wait();
  EXPECT_EQ(cause(), "nothing");
  EXPECT_GT(pings(), 0);
  wait();
  expect_named(2, "rank 2 answers nothing: it is stopped, or cut off");
}

TEST_F(P2PDeadlines, ARankThatHasLeftIsNamedAtOnce) {
  recv(2);
  channel_.set_left(2);
  matcher_.tick(bare_now);
  EXPECT_EQ(group_.cause.code(), Errc::peer_left);
  EXPECT_EQ(group_.cause.culprit(), 2);
}

TEST_F(P2PDeadlines, AMessageThatHasComeStaysWhenItsSenderLeaves) {
  call::GpuMessage gpu;  // its caller gives memory of the host later
  Details details;
  details.gpu_message = &gpu;
  const std::uint64_t ticket = matcher_.submit({.kind = Kind::recv,
                                                .root = 2,
                                                .timeout = 10s,
                                                .input = {},
                                                .output = TensorView(nullptr, DType::float32, 4),
                                                .details = &details});
  const std::vector<float> sent{1, 2, 3, 4};
  matcher_.on_short(2, {7, 0, 1, static_cast<std::uint8_t>(DType::float32), 16},
                    std::as_bytes(std::span(sent)).data());
  channel_.set_left(2);
  matcher_.tick(bare_now);
  EXPECT_EQ(cause(), "nothing");
  gpu.memory = TensorView(data_);
  gpu.state.store(call::GpuMessage::State::has_memory);
  (void)matcher_.push();
  EXPECT_TRUE(matcher_.outcome(ticket).has_value());
  EXPECT_EQ(data_, sent);
}

TEST_F(P2PDeadlines, NobodyIsToBlameForARecvOfAnybody) {
  recv(any_source);
  wait();
  detector_.on_pong(group_, 2, transport::PongFrame{7, 0, false}, {});
  wait();
  EXPECT_EQ(group_.cause.code(), Errc::timeout);
  expect_named(std::nullopt, "no rank has sent it");
}

TEST_F(P2PDeadlines, ARankThatHasEndedIsNotToBlameForARecvOfAnybody) {
  recv(any_source);
  channel_.set_left(2);
  wait();
  wait();
  EXPECT_EQ(group_.cause.code(), Errc::timeout);
  EXPECT_EQ(group_.cause.culprit(), std::nullopt) << cause();
}

TEST_F(P2PDeadlines, ARankThatRunsHasTimeToNameTheOneThatItWaitsFor) {
  recv(1);
  wait();
  EXPECT_EQ(cause(), "nothing");
  EXPECT_EQ(matcher_.next_deadline(), bare_now + 2 * kAnswerTime);
  wait();
  expect_named(1, "rank 1 has not sent it");
}

TEST_F(P2PDeadlines, ARankOfAnotherHostThatAnswersHasThatTimeToo) {
  recv(2);
  wait();
  detector_.on_pong(group_, 2, transport::PongFrame{7, 0, false}, {});
  wait();
  EXPECT_EQ(cause(), "nothing");
  wait();
  expect_named(2, "rank 2 has not sent it");
}

TEST_F(P2PDeadlines, EachRequestSparesAnew) {
  recv(1);
  const TimePoint first = matcher_.next_deadline();
  bare_now += 5s;
  recv(1);
  bare_now = first;
  matcher_.tick(bare_now);
  EXPECT_EQ(cause(), "nothing");
  EXPECT_EQ(matcher_.next_deadline(), first + 2 * kAnswerTime);
}

TEST_F(P2PDeadlines, TheOtherRankIsAskedInTimeWhatItDoes) {
  recv(2);
  recv(2);
  const TimePoint deadline = matcher_.next_deadline();
  for (const auto before : {kAskAhead, kAskAhead / 2}) {
    bare_now = deadline - before;
    matcher_.tick(bare_now);
  }
  channel_.flush_control();
  EXPECT_EQ(std::ranges::count_if(
                transport_.sent,
                [](const transport::FrameHeader& header) {
                  return header.type == static_cast<std::uint8_t>(transport::FrameType::ping) &&
                         transport::decode<transport::PingFrame>(header).asks_doing;
                }),
            1);
  const std::string doing = "group 'b', operation 1 barrier()";
  detector_.on_pong(group_, 2, {7, 0, false, 0, true}, std::as_bytes(std::span(doing)));
  for (int i = 0; i < 3; ++i) {
    wait();
    detector_.on_pong(group_, 2, transport::PongFrame{7, 0, false}, {});
  }
  expect_named(2, "): rank 2 has not sent it and is in " + doing + ". See");
}

/// Rank 1 can only wait for us.
class P2PDeadlinesOfTwo : public P2PDeadlines {
 protected:
  P2PDeadlinesOfTwo() : P2PDeadlines({0, 0}) {}
};

TEST_F(P2PDeadlinesOfTwo, TheOtherRankIsNamedAtTheDeadline) {
  recv(1);
  wait();
  EXPECT_EQ(bare_now - TimePoint(1h), 10s);
  expect_named(1, "rank 1 has not sent it. See");
}

TEST_F(P2PDeadlinesOfTwo, ARankThatHasHadTheTimeToAnswerIsInNoCall) {
  recv(1);
  bare_now = matcher_.next_deadline() - kDoingTime;
  matcher_.tick(bare_now);
  wait();
  expect_named(1,
               "rank 1 has not sent it and is in no call: it computes, or waits for something "
               "else. See");
}

TEST_F(P2PDeadlinesOfTwo, OfARankThatMayStillAnswerNothingIsTold) {
  recv(1, 1s);
  bare_now = matcher_.next_deadline() - 500ms;
  matcher_.tick(bare_now);
  wait();
  expect_named(1, "rank 1 has not sent it. See");
}

}  // namespace
}  // namespace tutti::engine
