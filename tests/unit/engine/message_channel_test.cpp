#include "engine/message_channel.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "noting_transport.hpp"

// The channel alone: no engine, no group, no schedule.
namespace tutti::engine {
namespace {

using namespace transport;

constexpr std::uint64_t kGroup = 7;
constexpr EagerWindows kWindows = eager_windows(3);

std::vector<std::byte> bytes_of(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xff);
  return bytes;
}

Stream::Post post_of(std::vector<std::byte>& bytes, std::size_t at = 0) {
  return {.data = bytes.data() + at, .elements = {}};
}

StreamCall call_of(std::uint64_t seq, std::size_t element = 1) {
  return {kGroup, seq, 1000 + seq, {seq, 2, 3}, element, false};
}

/// An operation between ranks 0 and 1 of the world.
void open(StreamState& state, const StreamCall& call) {
  state.open(call, 2, [](int rank) { return rank; });
}

/// Whose memory a frame is sent from.
class NotingOwner final : public FrameOwner {
 public:
  void on_frame_sent(std::uint64_t id) noexcept override { sent.push_back(id); }
  void on_frame_lost(std::uint64_t id) noexcept override { lost.push_back(id); }
  std::vector<std::uint64_t> sent;
  std::vector<std::uint64_t> lost;
};

/// The channel of rank 0 of three.
class MessageChannelTest : public testing::Test {
 protected:
  MessageChannelTest() : channel_(std::span<Transport* const>(transports_)) {
    open(state_, call_of(1));
  }

  /// Rank 1 sends bytes of an operation that runs here. Empty: refused.
  std::span<std::byte> head(StreamState& state, const DataFrame& data) {
    const FrameHeader header = encode(data);
    channel_.arriving(1, header);
    if (!channel_.count_eager(1, header)) return {};
    return channel_.place_in_stream(1, state, 1, data);
  }
  bool hear(StreamState& state, const DataFrame& data, const std::byte* payload) {
    const std::span<std::byte> into = head(state, data);
    if (into.empty()) return false;
    std::memcpy(into.data(), payload, data.bytes);
    if (!channel_.is_kept(1)) {
      channel_.stream_arrived(1, encode(data));
    } else if (channel_.keep_in_stream(1, state, 1, data)) {
      EXPECT_FALSE(channel_.deliver_held(state, 1).has_value());
    }
    return true;
  }
  static DataFrame data(const StreamCall& call, std::uint64_t offset, std::size_t bytes) {
    return {call.group, call.seq,  call.fingerprint,
            offset,     call.code, static_cast<std::uint32_t>(bytes),
            true};
  }
  void post_receive(std::vector<std::byte>& in) {
    MessageChannel::post_receive(state_, 1, post_of(in), in.size());
  }
  void post_send(StreamState& state, std::vector<std::byte>& out) {
    channel_.post_send(state, 1, post_of(out), out.size());
  }
  [[nodiscard]] std::size_t bytes_sent() const { return transport_.bytes(FrameType::data, kGroup); }

  NotingTransport transport_;
  Transport* transports_[3] = {nullptr, &transport_, &transport_};
  MessageChannel channel_;
  StreamState state_;
};

TEST_F(MessageChannelTest, SendsEagerBytesUnaskedAndTheRestForCredit) {
  std::vector<std::byte> out = bytes_of(kWindows.stream + 200'000, 1);
  post_send(state_, out);
  EXPECT_EQ(bytes_sent(), kWindows.stream);
  EXPECT_FALSE(channel_.pump(state_));
  state_[1].take_credit(kWindows.stream + 150'000);
  EXPECT_TRUE(channel_.pump(state_));
  EXPECT_EQ(bytes_sent(), kWindows.stream + 150'000);
  state_[1].take_credit(out.size());
  channel_.pump(state_);
  EXPECT_EQ(bytes_sent(), out.size());
  EXPECT_FALSE(state_.all_sent());  // the transport still reads
  channel_.on_sent(1, transport_.last_token(1));
  EXPECT_TRUE(state_.all_sent());
}

TEST_F(MessageChannelTest, AsksForCreditWhereTheEagerBytesOfAllStreamsAreUsedUp) {
  std::vector<std::byte> out = bytes_of(kWindows.stream, 1);
  const auto streams = static_cast<std::size_t>(kWindows.peer / kWindows.stream);
  std::vector<StreamState> states(streams + 1);
  for (std::size_t i = 0; i <= streams; ++i) {
    open(states[i], call_of(i + 1));
    post_send(states[i], out);
  }
  EXPECT_EQ(bytes_sent(), kWindows.peer);
  EXPECT_EQ(transport_.frames(FrameType::want), 1);
  channel_.eager_acknowledged(1, {kWindows.stream});
  channel_.pump(states[streams]);
  EXPECT_EQ(bytes_sent(), kWindows.peer + kWindows.stream);
}

// 32 MiB for all peers of a process together, as long as that is not too little for each.
TEST(EagerWindows, ShareWhatAProcessKeepsForItsPeers) {
  constexpr std::uint64_t kKiB = 1024;
  for (std::size_t ranks = 1; ranks <= 4096; ++ranks) {
    const EagerWindows windows = eager_windows(ranks);
    EXPECT_EQ(windows.stream * 8, windows.peer);
    EXPECT_GE(windows.stream, 64 * kKiB);
    EXPECT_LE(windows.stream, 256 * kKiB);
    EXPECT_LE(windows.peer, std::max(32 * kKiB * kKiB / ranks, 512 * kKiB)) << ranks;
    EXPECT_GE(windows.messages, 128 * kKiB);
    EXPECT_LE(windows.messages,
              std::min(std::max(32 * kKiB * kKiB / ranks, 128 * kKiB), 2048 * kKiB));
    EXPECT_LE(windows.peer, kMostEager.peer);
  }
  EXPECT_EQ(eager_windows(2).stream, 256 * kKiB);
  EXPECT_EQ(eager_windows(64).stream, 64 * kKiB);
  EXPECT_EQ(eager_windows(32).messages, 1024 * kKiB);
  EXPECT_EQ(eager_windows(256).messages, 128 * kKiB);
}

TEST_F(MessageChannelTest, MessagesThatNobodyReceivesTakeNoCreditFromOperations) {
  while (channel_.eager_message_room(1) >= kEagerLimit) channel_.message_sent(1, kEagerLimit);
  while (channel_.message_room(1) > 0) channel_.message_sent(1, 0);
  std::vector<std::byte> out = bytes_of(kWindows.stream, 1);
  post_send(state_, out);
  EXPECT_EQ(bytes_sent(), kWindows.stream);
}

TEST_F(MessageChannelTest, WhatComesBeforeItsReceiveIsHeldAndThenDeliveredInOrder) {
  const std::vector<std::byte> sent = bytes_of(3000, 2);
  std::vector<std::byte> in(sent.size());
  for (std::size_t at = 0; at < sent.size(); at += 1000)
    ASSERT_TRUE(hear(state_, data(state_.call(), at, 1000), sent.data() + at));
  EXPECT_EQ(state_[1].received, 0u);
  MessageChannel::post_receive(state_, 1, post_of(in), 2000);
  EXPECT_FALSE(channel_.deliver_held(state_, 1).has_value());
  EXPECT_EQ(state_[1].received, 2000u);
  EXPECT_TRUE(state_[1].has_received(0));
  MessageChannel::post_receive(state_, 1, post_of(in, 2000), 1000);
  EXPECT_FALSE(state_[1].has_received(0));
  EXPECT_TRUE(state_[1].has_received(1));
  EXPECT_FALSE(channel_.deliver_held(state_, 1).has_value());
  EXPECT_EQ(in, sent);
}

TEST_F(MessageChannelTest, UsesNothingWhileTheOutputIsDeferred) {
  const std::vector<std::byte> sent = bytes_of(kWindows.stream + 100'000, 2);
  std::vector<std::byte> in(sent.size());
  state_.deferred = true;
  post_receive(in);
  ASSERT_TRUE(hear(state_, data(state_.call(), 0, 1000), sent.data()));
  channel_.grant(state_);
  EXPECT_EQ(transport_.frames(FrameType::credit), 0);
  EXPECT_EQ(state_[1].received, 0u);
  EXPECT_TRUE(state_[1].compared);
  state_.deferred = false;
  EXPECT_FALSE(channel_.deliver_held(state_, 1).has_value());
  channel_.grant(state_);
  EXPECT_EQ(transport_.frames(FrameType::credit), 1);
  EXPECT_EQ(state_[1].received, 1000u);
}

TEST_F(MessageChannelTest, AHeldFrameOfAnotherCallIsReturnedAndNotUsed) {
  const StreamCall ours = call_of(1);
  DataFrame other = data(ours, 0, 8);
  other.fingerprint = 5;
  channel_.arriving(1, encode(other));
  ASSERT_FALSE(channel_.place_kept(1).empty());
  channel_.keep(1, encode(other));
  std::vector<std::byte> in(8);
  post_receive(in);
  const std::optional<DataFrame> returned = channel_.deliver_held(state_, 1);
  ASSERT_TRUE(returned.has_value());
  EXPECT_EQ(returned->fingerprint, 5u);
  EXPECT_EQ(state_[1].received, 0u);
}

TEST_F(MessageChannelTest, AFrameWithAnotherNumberOfElementsIsFoundOnceTheReceiveIsPosted) {
  StreamCall call = call_of(1, 4);
  call.splits = true;
  open(state_, call);
  DataFrame five = data(call, 0, 8);
  five.call[2] = 5;
  EXPECT_FALSE(MessageChannel::splits_differ(state_, 1, five));
  std::vector<std::byte> in(16);
  post_receive(in);
  EXPECT_TRUE(MessageChannel::splits_differ(state_, 1, five));
  five.call[2] = 4;
  EXPECT_FALSE(MessageChannel::splits_differ(state_, 1, five));
}

TEST_F(MessageChannelTest, RefusesHolesRepetitionsAndMoreThanItsCredit) {
  const std::vector<std::byte> sent = bytes_of(100'000, 2);
  EXPECT_FALSE(hear(state_, data(state_.call(), 8, 8), sent.data()));  // a hole
  EXPECT_TRUE(hear(state_, data(state_.call(), 0, 8), sent.data()));
  EXPECT_FALSE(hear(state_, data(state_.call(), 0, 8), sent.data()));  // again
  EXPECT_FALSE(hear(state_, data(state_.call(), 8, kWindows.stream), sent.data()));
  FrameHeader header = encode(data(state_.call(), 8, 1024));
  std::uint64_t counted = 0;
  while (channel_.count_eager(1, header)) counted += 1024;
  EXPECT_LE(counted, kWindows.peer);
}

TEST_F(MessageChannelTest, ReportsEagerBytesOnceTheyAreUsedOrDropped) {
  const std::vector<std::byte> sent = bytes_of(kWindows.stream, 2);
  std::vector<std::byte> in(sent.size());
  post_receive(in);
  ASSERT_TRUE(hear(state_, data(state_.call(), 0, sent.size()), sent.data()));
  EXPECT_EQ(transport_.frames(FrameType::eager_credit), 1);
  const FrameHeader dropped = encode(data(call_of(2), 0, kWindows.stream));
  ASSERT_TRUE(channel_.count_eager(1, dropped));
  channel_.consumed(1, dropped);
  EXPECT_EQ(transport_.frames(FrameType::eager_credit), 2);
}

TEST_F(MessageChannelTest, ControlFramesGoBeforePayloads) {
  transport_.open = false;
  channel_.control(1, encode(WantFrame{kGroup, 1}));
  EXPECT_TRUE(channel_.has_unsent());
  EXPECT_FALSE(channel_.can_send(1));
  transport_.open = true;
  EXPECT_TRUE(channel_.can_send(1));
  EXPECT_EQ(transport_.frames(FrameType::want), 1);
}

TEST_F(MessageChannelTest, AnOwnerIsToldOfItsFramesUntilItLetsGo) {
  NotingOwner owner;
  const std::vector<std::byte> payload = bytes_of(16, 3);
  const FrameHeader header = encode(P2PDataFrame{kGroup, 1, 2, 0, 16});
  channel_.send(1, header, channel_.prepare(1, payload.data()), &owner, 5);
  channel_.on_sent(1, transport_.last_token(1));
  EXPECT_EQ(owner.sent, std::vector<std::uint64_t>{5});
  channel_.send(1, header, channel_.prepare(1, payload.data()), &owner, 6);
  channel_.let_go(owner);
  EXPECT_EQ(transport_.kept, 1);
  channel_.on_sent(1, transport_.last_token(1));
  EXPECT_EQ(owner.sent.size(), 1u);
  channel_.send(1, header, channel_.prepare(1, payload.data()), &owner, 7);
  channel_.connection_ended(1);
  EXPECT_EQ(owner.lost, std::vector<std::uint64_t>{7});
  EXPECT_FALSE(channel_.has_unsent());
}

TEST_F(MessageChannelTest, AnOwnerIsToldAtOnceOfAFrameThatWasCopied) {
  NotingOwner owner;
  transport_.copies = true;
  const std::vector<std::byte> payload = bytes_of(16, 3);
  channel_.send(1, encode(P2PDataFrame{kGroup, 1, 2, 0, 16}), channel_.prepare(1, payload.data()),
                &owner, 5);
  EXPECT_EQ(owner.sent, std::vector<std::uint64_t>{5});
  EXPECT_FALSE(channel_.has_unsent());
}

TEST_F(MessageChannelTest, WhatArrivesForAnOwnerThatLetsGoIsDroppedAndItsCreditGivenBack) {
  std::vector<std::byte> in(kWindows.stream);
  post_receive(in);
  ASSERT_EQ(head(state_, data(state_.call(), 0, in.size())).data(), in.data());
  state_.close();
  channel_.let_go(state_);
  EXPECT_EQ(transport_.dropped, 1);
  EXPECT_EQ(transport_.frames(FrameType::eager_credit), 1);
  EXPECT_EQ(channel_.take_owner(1), nullptr);
}

TEST_F(MessageChannelTest, MakesFewCopiesOfStridedElementsAtATime) {
  std::vector<float> matrix(512);
  const std::int64_t shape[] = {256};
  const std::int64_t strides[] = {2};
  const TensorView column(matrix.data(), DType::float32, shape, strides);
  const Elements elements{&column, nullptr, 0};
  int made = 0;
  while (channel_.may_bounce(1) && made < 100) {
    channel_.send(1, encode(P2PDataFrame{kGroup, 1, 2, 0, 1024}),
                  channel_.prepare(1, elements, 4, 0, 1024));
    ++made;
  }
  EXPECT_EQ(made, 4);
  EXPECT_TRUE(channel_.may_bounce(2));
  channel_.on_sent(1, transport_.last_token(1));
  EXPECT_TRUE(channel_.may_bounce(1));
}

TEST_F(MessageChannelTest, AGroupsHeldFramesAreForgottenAndOthersAreNot) {
  for (const std::uint64_t group : {kGroup, kGroup + 1}) {
    channel_.held(1).push_control(encode(WantFrame{group, 1}));
    channel_.held(1).push_control(encode(WantFrame{group, 1}));  // says the same
  }
  channel_.drop_held(kGroup);
  EXPECT_FALSE(channel_.held(1).take(FrameType::want, kGroup, 1).has_value());
  EXPECT_TRUE(channel_.held(1).take(FrameType::want, kGroup + 1, 1).has_value());
  EXPECT_FALSE(channel_.held(1).take(FrameType::want, kGroup + 1, 1).has_value());
}

}  // namespace
}  // namespace tutti::engine
