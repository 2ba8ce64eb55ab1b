#include <span>

#include "lone_engine.hpp"
#include "support/memory_in_use.hpp"
#include "transport/shm/layout.hpp"

// One engine, and a transport that only notes what is sent: credit, the window, and what happens
// when others are late.
namespace tutti::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using namespace transport;

constexpr std::size_t kEager = eager_windows(3).stream;
constexpr std::size_t kPool = eager_windows(3).peer;

/// Rank 1 is played by the test; no group has rank 2.
class MessagesTest : public LoneEngine {
 protected:
  MessagesTest() : LoneEngine("broadcast:binomial_broadcast,all_reduce:exchange") {}

  Group& group(std::uint64_t id) { return LoneEngine::group(id, {0, 1}); }
  std::uint64_t broadcast(Group& group, std::vector<float>& data, int root) {
    return engine_.submit(group, {.kind = Kind::broadcast,
                                  .root = root,
                                  .timeout = seconds(1),
                                  .input = TensorView(data),
                                  .output = TensorView(data)});
  }
  bool hear(const FrameHeader& header, const std::vector<std::byte>& payload = {}) {
    return LoneEngine::hear(1, header, payload);
  }
  /// With a payload of zeros.
  bool hear_data(std::uint64_t seq, std::uint64_t fingerprint, std::size_t bytes) {
    return hear(data(world_, seq, fingerprint, bytes), std::vector<std::byte>(bytes));
  }
  static FrameHeader frame(FrameType type, std::uint64_t group, std::uint64_t seq,
                           std::uint64_t offset) {
    return {.type = static_cast<std::uint8_t>(type), .group = group, .seq = seq, .offset = offset};
  }
  /// What rank 1 would send of an operation that it makes as `like` does.
  static FrameHeader data(const Group& like, std::uint64_t seq, std::uint64_t fingerprint,
                          std::size_t bytes, std::uint64_t offset = 0) {
    FrameHeader header = frame(FrameType::data, like.id, seq, offset);
    header.payload_bytes = static_cast<std::uint32_t>(bytes);
    header.fingerprint = fingerprint;
    header.flags = 1;
    return header;
  }
  /// How many of its eager bytes rank 1 was told to be free again.
  [[nodiscard]] std::uint64_t eager_reported() const {
    std::uint64_t most = 0;
    for (const FrameHeader& header : transport_.sent) {
      if (type_of(header) == FrameType::eager_credit)
        most = std::max(most, decode<EagerCreditFrame>(header).taken_bytes);
    }
    return most;
  }
  static std::uint64_t fingerprint_of(std::uint64_t group, std::size_t count, int root) {
    const Collective call{.kind = Kind::broadcast,
                          .root = root,
                          .input = TensorView(nullptr, DType::float32, count),
                          .output = {}};
    return call::chain(call::chain_start(group, 0),
                       call::encode(call, call::extent_of(call, 0, 2)));
  }

  Group& world_ = group(1);
};

TEST_F(MessagesTest, CreditThatCameBeforeTheCallCounts) {
  std::vector<float> large(100'000);
  EXPECT_TRUE(hear(frame(FrameType::credit, 2, 1, 300'000)));  // before the group, too
  Group& late = group(2);
  EXPECT_TRUE(hear(frame(FrameType::credit, 2, 1, 400'000)));
  const std::uint64_t ticket = broadcast(late, large, 0);
  settle();
  EXPECT_TRUE(engine_.is_done(late, ticket));
}

TEST_F(MessagesTest, ARefusedPoolDoesNotBlockAnotherGroup) {
  Group& busy = group(2);
  std::vector<float> large(100'000);
  for (int i = 0; i < 8; ++i) broadcast(world_, large, 0);
  settle();
  EXPECT_EQ(transport_.bytes(FrameType::data, 1), kPool) << "eight windows: the whole pool";
  std::vector<float> small(10);
  const std::uint64_t ticket = broadcast(busy, small, 0);
  settle();
  EXPECT_EQ(transport_.bytes(FrameType::data, 2), 0u);
  ASSERT_EQ(transport_.sent.back().type, static_cast<std::uint8_t>(FrameType::want));
  EXPECT_EQ(transport_.sent.back().group, 2u);
  EXPECT_TRUE(hear(frame(FrameType::credit, 2, 1, kEager)));
  settle();
  EXPECT_TRUE(engine_.is_done(busy, ticket));
}

TEST_F(MessagesTest, AWantIsAnsweredWhenTheOperationIsEntered) {
  EXPECT_TRUE(hear(frame(FrameType::want, 1, 1, 0)));
  EXPECT_EQ(transport_.frames(FrameType::credit), 0);
  std::vector<float> values(10);
  broadcast(world_, values, 1);
  settle();
  ASSERT_EQ(transport_.frames(FrameType::credit), 1);
  EXPECT_EQ(transport_.sent.back().offset, kEager);
}

TEST_F(MessagesTest, ManySmallOperationsCannotFloodAPeer) {
  std::vector<float> one(1);
  for (int i = 0; i < 50'000; ++i) {
    broadcast(world_, one, 0);
    settle();
  }
  // Each counts 64 bytes at least.
  EXPECT_LE(transport_.bytes(FrameType::data, 1) / 4, kPool / 64);
}

TEST_F(MessagesTest, EagerBytesAreReportedOnceTheyAreTaken) {
  std::vector<float> values(kEager / sizeof(float));
  const std::uint64_t ticket = broadcast(world_, values, 1);
  const std::uint64_t fingerprint = fingerprint_of(1, values.size(), 1);
  for (std::size_t at = 0; at < kEager; at += kMaxFramePayload)
    EXPECT_TRUE(hear(data(world_, 1, fingerprint, kMaxFramePayload, at),
                     std::vector<std::byte>(kMaxFramePayload)));
  settle();
  EXPECT_TRUE(engine_.is_done(world_, ticket));
  EXPECT_EQ(eager_reported(), kEager);
}

TEST_F(MessagesTest, EagerBytesAreReportedIfTheirGroupGoesToo) {
  for (std::uint64_t seq = 1; seq <= kEager / kMaxFramePayload; ++seq)
    EXPECT_TRUE(hear_data(seq, 5, kMaxFramePayload));
  EXPECT_EQ(eager_reported(), 0u) << "they are held";
  engine_.remove_group(world_);
  EXPECT_EQ(eager_reported(), kEager);
}

TEST_F(MessagesTest, FramesOfOneByteAreHeldNoFurtherThanLargeOnes) {
  std::vector<float> one(1);
  broadcast(world_, one, 1);
  const std::uint64_t fingerprint = fingerprint_of(1, 1, 1);
  FrameHeader header = data(world_, 1, fingerprint, 5);
  header.flags = 0;  // as if we had asked for it
  const std::size_t before = test::memory_in_use();
  ASSERT_TRUE(hear(header, std::vector<std::byte>(5)));  // fits no receive: all others wait for it
  header.payload_bytes = 1;
  std::size_t held = 1;
  for (header.offset = 5; hear(header, std::vector<std::byte>(1)); ++header.offset) ++held;
  EXPECT_LT(header.offset, kEager) << "not the memory was the limit";
  EXPECT_LE(held * HeldFrames::memory_of(header), std::size_t{35} << 20);
  EXPECT_LE(test::memory_in_use() - before, std::size_t{48} << 20);
  EXPECT_EQ(one, std::vector<float>(1));
}

TEST_F(MessagesTest, WhatHasCreditNeverWaits) {
  std::vector<float> large(100'000);
  broadcast(world_, large, 1);
  settle();
  ASSERT_EQ(transport_.sent.back().type, static_cast<std::uint8_t>(FrameType::credit));
  const std::uint64_t fingerprint = fingerprint_of(1, large.size(), 1);
  FrameHeader header = data(world_, 1, fingerprint, kMaxFramePayload);
  header.flags = 0;
  for (; header.offset < kEager; header.offset += kMaxFramePayload)  // as long as the receives
    EXPECT_TRUE(hear(header, std::vector<std::byte>(kMaxFramePayload)));
  header.payload_bytes = 100'000;
  EXPECT_TRUE(hear(header, std::vector<std::byte>(100'000)));
  header.offset += 100'000;
  header.payload_bytes = 37'000;  // beyond the end of the receive that it begins in
  EXPECT_FALSE(hear(header, std::vector<std::byte>(37'000)));
}

TEST_F(MessagesTest, ControlFramesThatWaitAreBoundedToo) {
  const std::size_t before = test::memory_in_use();
  std::uint64_t held = 0;
  while (hear(frame(FrameType::want, 2, held + 1, 0))) ++held;
  // As many as an honest peer can have under way, and no more than their memory allows.
  EXPECT_GE(held, std::uint64_t{3} * shm::kWindow * shm::kMaxGroups);
  EXPECT_LE(held * HeldFrames::kBookkeeping, std::size_t{32} << 20);
  EXPECT_LE(test::memory_in_use() - before, std::size_t{64} << 20);
}

class EagerFrames : public MessagesTest, public testing::WithParamInterface<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Bytes, EagerFrames, testing::Values(1, 64, 65, 257, 2049, 16'385, 65'536),
                         testing::PrintToStringParamName());

TEST_P(EagerFrames, TakeLittleMoreThanTheyCount) {
  const std::size_t before = test::memory_in_use();
  std::size_t held = 0;
  while (hear_data(held + 1, 5, GetParam())) ++held;
  EXPECT_EQ(held, kPool / std::max<std::size_t>(GetParam(), 64)) << "an honest peer is refused";
  EXPECT_FALSE(hear_data(held + 2, 5, 1)) << "nor is there room for less";
  EXPECT_LE(test::memory_in_use() - before, 10 * kPool + (std::size_t{1} << 20));
}

TEST_F(MessagesTest, APayloadThatEndsAfterTheCallHasBegunIsUsed) {
  std::vector<float> values(4);
  const FrameHeader header = data(world_, 1, fingerprint_of(1, 4, 1), 16);
  const std::span<std::byte> into = transport_.sink().on_header(1, header);
  ASSERT_GE(into.size(), 16u);
  const std::uint64_t ticket = broadcast(world_, values, 1);
  const std::vector<float> sent{1, 2, 3, 4};
  std::copy_n(reinterpret_cast<const std::byte*>(sent.data()), 16, into.begin());
  transport_.sink().on_frame(1, header);
  settle();
  EXPECT_TRUE(engine_.is_done(world_, ticket));
  EXPECT_EQ(values, sent);
}

TEST_F(MessagesTest, AFailedCallGivesItsMemoryBack) {
  std::vector<float> values(4, 7.0F);
  const std::uint64_t ticket = broadcast(world_, values, 1);
  const FrameHeader header = data(world_, 1, fingerprint_of(1, 4, 1), 16);
  const std::span<std::byte> into = transport_.sink().on_header(1, header);
  EXPECT_EQ(static_cast<void*>(into.data()), values.data());
  engine_.break_group(world_, Outcome(Errc::aborted, "stopped"));
  EXPECT_TRUE(engine_.is_done(world_, ticket));
  EXPECT_EQ(transport_.dropped, 1);
}

TEST_F(MessagesTest, WhatAFailedCallStillSendsIsKeptElsewhere) {
  std::vector<float> values(4);
  const std::uint64_t ticket = broadcast(world_, values, 0);
  EXPECT_EQ(transport_.bytes(FrameType::data, 1), 16u);
  EXPECT_FALSE(engine_.is_done(world_, ticket)) << "the transport still reads the values";
  engine_.break_group(world_, Outcome(Errc::aborted, "stopped"));
  EXPECT_TRUE(engine_.is_done(world_, ticket));
  EXPECT_EQ(transport_.kept, 1);
}

TEST_F(MessagesTest, TheNinthOperationWaitsInTheQueue) {
  std::vector<std::vector<float>> values(12, std::vector<float>(4));
  std::vector<std::uint64_t> tickets;
  for (auto& one : values) tickets.push_back(broadcast(world_, one, 1));
  EXPECT_EQ(world_.window.started(), 8u);
  EXPECT_EQ(world_.window.submitted(), 12u);
  // The first one ends: the ninth begins.
  EXPECT_TRUE(hear_data(1, fingerprint_of(1, 4, 1), 16));
  settle();
  EXPECT_TRUE(engine_.is_done(world_, tickets[0]));
  EXPECT_EQ(world_.window.started(), 9u);
  EXPECT_FALSE(engine_.is_done(world_, tickets[8]));
  // All that are left fail together, those in the queue too.
  engine_.break_group(world_, Outcome(Errc::aborted, "stopped"));
  for (std::size_t i = 1; i < tickets.size(); ++i) {
    ASSERT_TRUE(engine_.is_done(world_, tickets[i]));
    EXPECT_EQ(engine_.outcome(world_, tickets[i])->code(), Errc::aborted);
  }
  EXPECT_TRUE(engine_.outcome(world_, tickets[0])->ok());
}

TEST_F(MessagesTest, AnotherCallOfThePeerBreaksTheGroupAndWritesNothing) {
  for (const int early : {0, 1}) {
    SCOPED_TRACE(early == 1 ? "before our call" : "after our call");
    Group& world = group(2 + early);
    std::vector<float> values(4, 7.0F);
    const auto hear_other = [&] {
      EXPECT_TRUE(hear(data(world, 1, 12345, 16), std::vector<std::byte>(16)));
    };
    if (early == 1) hear_other();
    const std::uint64_t ticket = broadcast(world, values, 1);
    if (early == 0) hear_other();
    const std::optional<Outcome> outcome = engine_.outcome(world, ticket);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->code(), Errc::disagreement);
    EXPECT_EQ(values, std::vector<float>(4, 7.0F));
    EXPECT_EQ(transport_.frames(FrameType::abort), 1 + early);
  }
}

TEST_F(MessagesTest, AllAreAskedBeforeTheDeadlineSoThatTheyAreConnectedThen) {
  std::vector<float> values(4);
  const std::uint64_t ticket = broadcast(world_, values, 1);  // takes a second at most
  const TimePoint start = lone_engine_now;
  const auto pings_after = [&](milliseconds time) {
    lone_engine_now = start + time;
    engine_.tick();
    settle();
    return transport_.frames(FrameType::ping);
  };
  EXPECT_EQ(pings_after(milliseconds(0)), 0);
  EXPECT_EQ(pings_after(milliseconds(45)), 1) << "whom it waits for hears what it is doing";
  EXPECT_EQ(pings_after(milliseconds(490)), 2) << "and again now and then";
  EXPECT_EQ(pings_after(milliseconds(510)), 3) << "half its time is over";
  EXPECT_EQ(pings_after(milliseconds(530)), 3) << "once";
  EXPECT_FALSE(engine_.is_done(world_, ticket));
  lone_engine_now = start;
}

TEST_F(MessagesTest, AGroupThatWasBrokenBeforeItWasMadeIsBroken) {
  FrameHeader abort = frame(FrameType::abort, 2, static_cast<std::uint64_t>(Errc::peer_lost), 2);
  const std::string text = "rank 1 is gone";
  abort.payload_bytes = static_cast<std::uint32_t>(text.size());
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_TRUE(hear(abort, {bytes.begin(), bytes.end()}));
  Group& late = group(2);
  std::vector<float> values(4);
  const std::optional<Outcome> outcome = engine_.outcome(late, broadcast(late, values, 1));
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->code(), Errc::peer_lost);
  EXPECT_EQ(outcome->message(), text);
  EXPECT_EQ(outcome->culprit(), 1);
}

TEST_F(MessagesTest, OnlyARankOfTheGroupIsToBlame) {
  const std::uint64_t code = static_cast<std::uint64_t>(Errc::peer_lost);
  for (const bool early : {false, true}) {
    // As they travel: one more than the rank.
    for (const std::uint64_t culprit :
         {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{3}, std::uint64_t{4},
          std::uint64_t{1} << 32 | 1, ~std::uint64_t{0}}) {
      SCOPED_TRACE(std::to_string(culprit) + (early ? ", before the group was made" : ""));
      const std::uint64_t id = 100 + 2 * (culprit % 50) + (early ? 1 : 0);
      Group* made = early ? nullptr : &group(id);
      EXPECT_TRUE(hear(frame(FrameType::abort, id, code, culprit)));
      if (early) made = &group(id);
      ASSERT_TRUE(made->broken);
      EXPECT_EQ(made->cause.culprit(), culprit == 2 ? std::optional<int>(1) : std::optional<int>());
      engine_.remove_group(*made);
    }
  }
}

}  // namespace
}  // namespace tutti::engine
