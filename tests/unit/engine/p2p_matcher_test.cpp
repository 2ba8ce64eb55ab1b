#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "engine/p2p_matcher.hpp"
#include "lone_engine.hpp"
#include "support/memory_in_use.hpp"

// One engine of three, and a transport that only notes what is sent: which recv gets which message,
// eager messages, and what a peer that lies can do.
namespace tutti::engine {
namespace {

using std::chrono::seconds;
using namespace transport;

constexpr std::uint64_t kUnasked = eager_windows(3).messages;

class P2PMatcherTest : public P2PWorld {
 protected:
  /// The payload of a frame begins and is all there; on_frame ends it.
  void begin_frame(const FrameHeader& header) {
    const std::span<std::byte> into = transport_.sink().on_header(1, header);
    ASSERT_GE(into.size(), kEagerLimit);
    std::fill(into.begin(), into.end(), std::byte{9});
  }
  /// Of the large message 1 of rank 1 to a recv that has just asked for it.
  FrameHeader first_data(std::uint32_t bytes) {
    settle();
    return encode(P2PDataFrame{1, 1, decode<CtsFrame>(transport_.sent.back()).recv, 0, bytes});
  }
};

TEST_F(P2PMatcherTest, TagsAndSourcesKeepMessagesApart) {
  Bytes a(1);
  Bytes c(1);
  const auto first = recv(world_, a, 1, 5);
  EXPECT_TRUE(message_from(2, 1, {20}, 5));
  EXPECT_TRUE(message_from(1, 1, {10}, 6));
  EXPECT_FALSE(done(world_, first));
  EXPECT_TRUE(message_from(1, 2, {11}, 5));
  EXPECT_TRUE(done(world_, first));
  EXPECT_EQ(a, Bytes{11});
  EXPECT_EQ(next(world_, 1, 1, 6), Bytes{10});
  const auto third = recv(world_, c, 2, 5);
  EXPECT_TRUE(done(world_, third));
  EXPECT_EQ(c, Bytes{20});
  EXPECT_EQ(engine_.received(world_, third).source, 2);
}

TEST_F(P2PMatcherTest, AnySourceTakesWhatCameFirst) {
  EXPECT_TRUE(message_from(2, 1, {20}));
  EXPECT_TRUE(message_from(1, 1, {10}));
  EXPECT_TRUE(message_from(2, 2, {21}));
  for (const auto& [value, source] : {std::pair{20, 2}, std::pair{10, 1}, std::pair{21, 2}}) {
    Bytes got(1);
    const auto ticket = recv(world_, got, any_source);
    ASSERT_TRUE(done(world_, ticket));
    EXPECT_EQ(got[0], value);
    EXPECT_EQ(engine_.received(world_, ticket).source, source);
  }
  // With any_tag, too: in the order of their arrival, from one rank and from all. The library's own
  // messages stay.
  EXPECT_TRUE(message_from(2, 3, {22}, 7));
  EXPECT_TRUE(message_from(1, 2, {90}, kLibraryTag));
  EXPECT_TRUE(message_from(1, 3, {91}, kFirstPackageTag));
  EXPECT_TRUE(message_from(1, 4, {11}, 8));
  EXPECT_TRUE(message_from(2, 4, {23}, 7));
  EXPECT_TRUE(message_from(1, 5, {12}, 0));
  EXPECT_TRUE(message_from(1, 6, {13}, 8));
  const int from[] = {1, any_source, any_source, any_source, 1};
  const int values[][3] = {{11, 1, 8}, {22, 2, 7}, {23, 2, 7}, {12, 1, 0}, {13, 1, 8}};
  for (std::size_t i = 0; i < std::size(from); ++i) {
    Bytes got(1);
    const auto ticket = recv(world_, got, from[i], any_tag);
    ASSERT_TRUE(done(world_, ticket));
    EXPECT_EQ(got[0], values[i][0]);
    EXPECT_EQ(engine_.received(world_, ticket).source, values[i][1]);
    EXPECT_EQ(engine_.received(world_, ticket).tag, values[i][2]);
  }
  Bytes got(1);
  EXPECT_FALSE(done(world_, recv(world_, got, any_source, any_tag)));
  EXPECT_EQ(next(world_, 1, 1, kLibraryTag), Bytes{90});
  EXPECT_EQ(next(world_, 1, 1, kFirstPackageTag), Bytes{91});
}

TEST_F(P2PMatcherTest, TheRecvThatWasCalledFirstGetsTheMessage) {
  Bytes any(1);
  Bytes named(1);
  const auto first = recv(world_, any, any_source);
  const auto second = recv(world_, named, 1);
  EXPECT_TRUE(message_from(1, 1, {10}));
  EXPECT_TRUE(message_from(1, 2, {11}));
  EXPECT_TRUE(done(world_, first));
  EXPECT_TRUE(done(world_, second));
  EXPECT_EQ(any, Bytes{10});
  EXPECT_EQ(named, Bytes{11});
  // Four kinds of recvs that fit one message, called in each order.
  int order[] = {0, 1, 2, 3};
  std::uint64_t number = 2;
  do {
    Bytes got[4] = {Bytes(1), Bytes(1), Bytes(1), Bytes(1)};
    std::uint64_t tickets[4];
    for (const int one : order)
      tickets[one] = recv(world_, got[one], one % 2 == 0 ? any_source : 1, one < 2 ? any_tag : 5);
    // The library's own messages are for none of them.
    EXPECT_TRUE(message_from(1, ++number, {99}, kLibraryTag));
    for (std::uint8_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(message_from(1, ++number, {i}, 5));
      EXPECT_TRUE(done(world_, tickets[order[i]]));
      EXPECT_EQ(got[order[i]][0], i);
      engine_.release(world_, tickets[order[i]]);
    }
    EXPECT_EQ(next(world_, 1, 1, kLibraryTag), Bytes{99});
  } while (std::next_permutation(order, order + 4));
  // One that is cancelled is as if it was never called, unless its message has come to it.
  Bytes taken(1);
  Bytes kept(1);
  Bytes third(1);
  for (const int tag : {4, any_tag}) {
    const auto gone = recv(world_, taken, any_source, tag);
    const auto stays = recv(world_, kept, any_source, tag);
    const auto last = recv(world_, third, any_source, tag);
    EXPECT_TRUE(engine_.cancel(world_, last));
    EXPECT_TRUE(engine_.cancel(world_, gone));
    EXPECT_FALSE(engine_.cancel(world_, gone)) << "only once";
    engine_.release(world_, gone);
    engine_.release(world_, last);
    EXPECT_TRUE(message_from(2, tag == 4 ? 1 : 2, {10}, 4));
    EXPECT_TRUE(done(world_, stays));
    EXPECT_FALSE(engine_.cancel(world_, stays)) << "too late";
    EXPECT_EQ(std::exchange(kept, Bytes(1)), Bytes{10});
    EXPECT_EQ(taken, Bytes(1));
    engine_.release(world_, stays);
  }
  EXPECT_FALSE(engine_.busy());
  // The bytes are on their way into its buffer: too late.
  const auto lands = recv(world_, taken, 2, 4);
  const FrameHeader header = eager(3, 1, 4);
  const std::span<std::byte> into = transport_.sink().on_header(2, header);
  ASSERT_FALSE(into.empty());
  EXPECT_FALSE(engine_.cancel(world_, lands));
  into[0] = std::byte{7};
  transport_.sink().on_frame(2, header);
  EXPECT_TRUE(done(world_, lands));
  EXPECT_EQ(taken, Bytes{7});
  // A large message that was asked for, a send and a probe.
  Bytes large(2 * kEagerLimit);
  const auto asked = recv(world_, large, 2, 4);
  EXPECT_TRUE(hear(2, rts(4, large.size(), 4)));
  EXPECT_FALSE(engine_.cancel(world_, asked));
  EXPECT_FALSE(engine_.cancel(world_, send(world_, large, 1)));
  EXPECT_FALSE(engine_.cancel(world_, call(world_, Kind::probe, 1, 0, nullptr)));
}

TEST_F(P2PMatcherTest, ALargeMessageIsAskedForAndItsBytesGoToTheirPlace) {
  Bytes got(200'000, 1);
  EXPECT_TRUE(hear(1, rts(1, got.size())));
  const auto ticket = recv(world_, got, 1);
  FrameHeader data = first_data(100'000);
  ASSERT_EQ(transport_.frames(FrameType::cts), 1);
  const auto cts = decode<CtsFrame>(transport_.sent.back());
  EXPECT_EQ(cts.send, 1001u);
  EXPECT_EQ(cts.bytes, got.size());
  EXPECT_EQ(static_cast<void*>(transport_.sink().on_header(1, data).data()), got.data());
  transport_.sink().on_frame(1, data);
  EXPECT_FALSE(done(world_, ticket));
  data.offset = 100'000;
  EXPECT_TRUE(hear(1, data, std::vector<std::byte>(100'000, std::byte{7})));
  EXPECT_TRUE(done(world_, ticket));
  EXPECT_EQ(got.back(), 7);
}

TEST_F(P2PMatcherTest, ASendGoesUnaskedUpToItsLimitAndThenWaits) {
  Bytes largest(kEagerLimit);
  Bytes large(2 * kUnasked);
  Bytes small(3);
  const auto waits = send(world_, large, 1, 1);
  const auto goes = send(world_, largest, 1, 2);
  const auto behind = send(world_, small, 1, 3);
  EXPECT_TRUE(done(world_, goes));
  EXPECT_TRUE(done(world_, behind)) << "a large message stops a small one";
  EXPECT_FALSE(done(world_, waits));
  ASSERT_EQ(transport_.frames(FrameType::rts), 1);
  ASSERT_EQ(transport_.frames(FrameType::eager_message), 2);
  const auto announced = decode<Envelope>(transport_.sent[0]);
  const CtsFrame cts{announced.group, announced.number, announced.send, 99, announced.bytes};
  EXPECT_TRUE(hear(1, encode(cts)));
  EXPECT_TRUE(done(world_, waits));
  EXPECT_EQ(decode<P2PDataFrame>(transport_.sent.back()).recv, 99u);
  // A second CTS for it changes nothing.
  const std::size_t before = transport_.sent.size();
  EXPECT_TRUE(hear(1, encode(cts)));
  settle();
  EXPECT_EQ(transport_.sent.size(), before);
}

TEST_F(P2PMatcherTest, ThePoolIsFilledAgainByReports) {
  Bytes largest(kEagerLimit);
  for (std::uint64_t sent = 0; sent < kUnasked; sent += kEagerLimit)
    EXPECT_TRUE(done(world_, send(world_, largest, 1)));
  EXPECT_FALSE(done(world_, send(world_, largest, 1)));
  EXPECT_TRUE(done(world_, send(world_, largest, 2))) << "each peer has its own";
  EXPECT_TRUE(hear(1, encode(P2PCreditFrame{1, kEagerLimit})));
  EXPECT_TRUE(done(world_, send(world_, largest, 1)));
}

TEST_F(P2PMatcherTest, WhatIsReceivedIsReported) {
  for (std::uint64_t number = 1; number * kEagerLimit <= kUnasked / 2; ++number) {
    Bytes got(kEagerLimit);
    const auto ticket = recv(world_, got, 1);
    EXPECT_TRUE(message_from(1, number, Bytes(kEagerLimit, 3)));
    EXPECT_TRUE(done(world_, ticket));
  }
  EXPECT_EQ(transport_.frames(FrameType::p2p_credit), 2) << "after each quarter of the window";
  EXPECT_EQ(decode<P2PCreditFrame>(transport_.sent.back()).taken_bytes, kUnasked / 2);
}

TEST_F(P2PMatcherTest, MoreThanThePoolIsRefused) {
  constexpr std::uint64_t kMessages = kUnasked / kEagerLimit;
  for (std::uint64_t number = 1; number <= kMessages; ++number)
    EXPECT_TRUE(message_from(1, number, Bytes(kEagerLimit)));
  EXPECT_FALSE(message_from(1, kMessages + 1, Bytes(1)));
  // Of groups that nobody made no more than that is held either.
  for (std::uint64_t group = 7; group < 7 + kMessages; ++group)
    EXPECT_TRUE(message_from(2, 1, Bytes(kEagerLimit), 0, group));
  EXPECT_FALSE(message_from(2, 1, Bytes(1), 0, 7 + kMessages));
}

TEST_F(P2PMatcherTest, AFloodForAClosedGroupLetsNoQueueGrow) {
  engine_.remove_group(world_);
  transport_.open = false;  // it takes nothing from us
  for (std::uint64_t number = 1; number <= 1000; ++number)
    ASSERT_TRUE(message_from(1, number, Bytes(kEagerLimit)));
  transport_.open = true;
  settle();
  EXPECT_EQ(transport_.frames(FrameType::p2p_credit), 1);
  const auto report = decode<P2PCreditFrame>(transport_.sent.back());
  EXPECT_EQ(report.taken_bytes, 1000 * kEagerLimit);
  EXPECT_EQ(report.taken_messages, 1000u);
}

TEST_F(P2PMatcherTest, EvenEmptyMessagesAreCounted) {
  for (std::uint64_t number = 1; number <= kMatchCredit; ++number)
    ASSERT_TRUE(message_from(1, number, {}, static_cast<int>(number)));
  EXPECT_FALSE(message_from(1, kMatchCredit + 1, {}));
}

TEST_F(P2PMatcherTest, UnexpectedMessagesAreBoundedWithAllThatIsKeptOfThem) {
  for (const bool made : {true, false}) {
    SCOPED_TRACE(made ? "in a group" : "in a group that nobody made");
    const int peer = made ? 1 : 2;  // each has its own bounds
    const std::size_t before = test::memory_in_use();
    std::uint64_t number = 1;
    const std::uint64_t id = made ? 1 : 7;
    for (; number <= kUnasked / 65; ++number)
      ASSERT_TRUE(message_from(peer, number, Bytes(65), static_cast<int>(number), id));
    for (; number <= kMatchCredit; ++number)
      ASSERT_TRUE(hear(peer, rts(number, 100'000, static_cast<int>(number), id)));
    EXPECT_FALSE(hear(peer, rts(number, 100'000, 0, id)));
    EXPECT_LE(test::memory_in_use() - before, std::size_t{28} << 20);
  }
}

TEST_F(P2PMatcherTest, ALiarIsRefused) {
  EXPECT_FALSE(hear(1, eager(2, 4), std::vector<std::byte>(4))) << "number";
  EagerMessageFrame lie{envelope(1, 4)};
  lie.dtype = kDTypeCount;
  EXPECT_FALSE(hear(1, encode(lie))) << "dtype";
  lie = {envelope(1, 4)};
  lie.tag = ~std::uint64_t{0};
  EXPECT_FALSE(hear(1, encode(lie))) << "tag";
  FrameHeader header = eager(1, 4);
  header.payload_bytes = 3;
  EXPECT_FALSE(hear(1, header)) << "a part";
  EXPECT_FALSE(hear(1, eager(1, kEagerLimit + 1))) << "more than is eager";
  lie = {envelope(1, 6)};
  lie.dtype = static_cast<std::uint64_t>(DType::float32);
  EXPECT_FALSE(hear(1, encode(lie))) << "half an element";
  header = rts(1, 4);
  header.payload_bytes = 4;
  EXPECT_FALSE(hear(1, header)) << "a request that has bytes";
  EXPECT_FALSE(hear(1, rts(1, 0))) << "a request for nothing";
  // Data that nobody asked for, or for another's recv, or beyond its end.
  Bytes got(100'000);
  const auto ticket = recv(world_, got, 1);
  EXPECT_TRUE(hear(1, rts(1, got.size())));
  FrameHeader data = first_data(60'000);
  EXPECT_FALSE(hear(2, data)) << "not its message";
  FrameHeader other = data;
  other.fingerprint += 1;
  EXPECT_FALSE(hear(1, other)) << "no such recv";
  other = data;
  other.offset = 100;
  EXPECT_FALSE(hear(1, other)) << "a hole";
  EXPECT_TRUE(hear(1, data, std::vector<std::byte>(60'000)));
  data.offset = 60'000;
  EXPECT_FALSE(hear(1, data)) << "beyond the end";
  EXPECT_FALSE(done(world_, ticket));
}

TEST_F(P2PMatcherTest, WhatCameBeforeTheGroupIsThere) {
  EXPECT_TRUE(message_from(1, 1, {42}, 0, 5));
  EXPECT_TRUE(message_from(1, 2, {43}, 0, 5));
  Group& late = group(5);
  EXPECT_EQ(next(late, 1, 1), Bytes{42});
  EXPECT_EQ(next(late, 1, any_source), Bytes{43});
}

TEST_F(P2PMatcherTest, AnotherTensorBreaksTheGroupAndWritesNothing) {
  Bytes got(4, 9);
  const auto ticket = recv(world_, got, 1, 8);
  EXPECT_TRUE(message_from(1, 1, {1, 2, 3}, 8));
  EXPECT_EQ(error_of(world_, ticket), Errc::disagreement);
  const std::optional<Outcome> outcome = engine_.outcome(world_, ticket);
  ASSERT_TRUE(outcome);
  for (const char* const part : {"rank 0", "rank 1", "tag 8", "uint8 x 4", "uint8 x 3"})
    EXPECT_NE(outcome->message().find(part), std::string::npos) << part;
  EXPECT_EQ(got, Bytes(4, 9));
  EXPECT_EQ(transport_.frames(FrameType::abort), 2);
}

TEST_F(P2PMatcherTest, AFailedOperationGivesItsMemoryBack) {
  Bytes got(100'000);
  Bytes large(100'000);
  const auto receiving = recv(world_, got, 1);
  EXPECT_TRUE(hear(1, rts(1, got.size())));
  FrameHeader data = first_data(60'000);
  EXPECT_FALSE(transport_.sink().on_header(1, data).empty());
  transport_.hands_over = false;
  Bytes small(100);
  const auto sending = send(world_, small, 2);
  EXPECT_FALSE(done(world_, sending)) << "the transport still reads the buffer";
  engine_.break_group(world_, Outcome(Errc::aborted, "stopped"));
  for (const auto ticket : {receiving, sending}) EXPECT_EQ(error_of(world_, ticket), Errc::aborted);
  EXPECT_EQ(transport_.dropped, 1);
  EXPECT_EQ(transport_.kept, 1);
  EXPECT_EQ(error_of(world_, send(world_, small, 2)), Errc::aborted);
}

TEST_F(P2PMatcherTest, WhoHasLeftIsMissedUnlessItsMessageHasCome) {
  EXPECT_TRUE(message_from(1, 1, {5}));
  transport_.sink().on_lost(1, Outcome(Errc::peer_left, "it left"));
  EXPECT_EQ(next(world_, 1, 1), Bytes{5});
  Bytes got(1);
  const auto anybody = recv(world_, got, any_source);
  engine_.tick();
  EXPECT_FALSE(done(world_, anybody)) << "rank 2 is still there";
  transport_.sink().on_lost(2, Outcome(Errc::peer_left, "it left"));
  engine_.tick();
  settle();
  EXPECT_EQ(error_of(world_, anybody), Errc::peer_left);
}

TEST_F(P2PMatcherTest, ARankThatLeavesItsMessageIsToldSo) {
  Bytes got(100'000);
  Bytes large(2 * kUnasked);
  Group& second = group(2);
  (void)recv(world_, got, any_source);
  EXPECT_TRUE(hear(1, rts(1, got.size())));
  (void)send(second, large, 1);
  const auto rts_sent = std::ranges::find(
      transport_.sent, static_cast<std::uint8_t>(FrameType::rts), &FrameHeader::type);
  ASSERT_NE(rts_sent, transport_.sent.end());
  const auto announced = decode<Envelope>(*rts_sent);
  settle();
  transport_.hands_over = false;
  EXPECT_TRUE(hear(1, encode(CtsFrame{2, announced.number, announced.send, 99, large.size()})));
  transport_.sink().on_lost(1, Outcome(Errc::peer_left, "it left"));
  engine_.tick();
  EXPECT_EQ(world_.cause.message(),
            "group 'group 1' of 3 ranks, recv(from anybody, tag 0, uint8 x 100000): rank 1 has "
            "ended, or destroyed the group, while it was sending it: 0 of 100000 bytes have "
            "passed. Wait for the Work of a send or recv before its rank does; the group is "
            "broken.");
  EXPECT_NE(second.cause.message().find("while it was receiving it: "), std::string::npos);
}

TEST_F(P2PMatcherTest, ATicketThatWasGivenBackIsNotTakenForAnother) {
  Bytes values(4);
  const auto first = send(world_, values, 1);
  EXPECT_TRUE(done(world_, first));
  engine_.release(world_, first);
  transport_.hands_over = false;
  const auto second = send(world_, values, 1);
  EXPECT_NE(first, second);
  EXPECT_FALSE(done(world_, second));
  EXPECT_TRUE(engine_.is_done(world_, first));
  EXPECT_TRUE(engine_.outcome(world_, first)->ok());
  // Given back before its end: the slot is free when it ends.
  engine_.release(world_, second);
  transport_.hands_over = true;
  settle();
  EXPECT_FALSE(engine_.busy());
}

TEST_F(P2PMatcherTest, RemovingAGroupEndsWhatRuns) {
  Bytes got(4);
  int told = 0;
  const auto ticket = recv(world_, got, 1);
  engine_.on_done(world_, ticket,
                  {[](void* context, const Outcome& status) noexcept {
                     EXPECT_EQ(status.code(), Errc::aborted);
                     ++*static_cast<int*>(context);
                   },
                   &told});
  engine_.remove_group(world_);
  for (const Finished& one : engine_.take_finished())
    one.callback.function(one.callback.context, one.status);
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(engine_.busy());
  EXPECT_TRUE(message_from(1, 1, {5})) << "of a group that is closed: dropped";
}

// The peer's frame begins when nobody has made its group, and ends when we have: without the peer.
TEST_F(P2PMatcherTest, AMessageOfAForeignRankThatArrivesWhileTheGroupIsMadeIsDropped) {
  const FrameHeader header = eager(1, kEagerLimit, 0, 5);
  begin_frame(header);
  Group& others = group(5, {0, 2});
  Bytes got(4);
  const auto ticket = recv(others, got, any_source);
  transport_.sink().on_frame(1, header);
  EXPECT_FALSE(done(others, ticket)) << "it is no member";
  EXPECT_TRUE(message_from(2, 1, {1, 2, 3, 4}, 0, 5));
  EXPECT_TRUE(done(others, ticket));
  EXPECT_EQ(got, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(engine_.received(others, ticket).source, 1) << "global rank 2";
  // The bytes that it took count no longer: a quarter of the window is reported with them.
  EXPECT_EQ(transport_.frames(FrameType::p2p_credit), 0);
  Bytes rest(kEagerLimit);
  for (std::uint64_t number = 1; (number + 1) * kEagerLimit <= kUnasked / 4; ++number) {
    EXPECT_TRUE(message_from(1, number, rest));
    EXPECT_TRUE(done(world_, recv(world_, rest, 1)));
  }
  EXPECT_EQ(transport_.frames(FrameType::p2p_credit), 1);
}

TEST_F(P2PMatcherTest, DataOfAForeignRankThatArriveWhileTheGroupIsMadeIsDropped) {
  const FrameHeader header{.payload_bytes = kEagerLimit,
                           .type = static_cast<std::uint8_t>(FrameType::data),
                           .flags = 1,  // eager
                           .group = 5,
                           .seq = 1};
  begin_frame(header);
  Group& others = group(5, {0, 2});
  Bytes got(4);
  const Collective call{.kind = Kind::broadcast,
                        .root = 1,
                        .timeout = seconds(1),
                        .input = TensorView(got),
                        .output = TensorView(got)};
  const auto ticket = engine_.submit(others, call);
  transport_.sink().on_frame(1, header);
  EXPECT_FALSE(done(others, ticket));
  EXPECT_FALSE(others.broken);
  EXPECT_EQ(got, Bytes(4));
  // It is not held, and counts no longer: with the rest of a report's bytes it is reported.
  EXPECT_EQ(transport_.frames(FrameType::eager_credit), 0);
  engine_.remove_group(group(6));
  FrameHeader dropped = header;
  dropped.group = 6;
  for (std::uint64_t bytes = kEagerLimit; bytes < eager_windows(3).stream; bytes += kEagerLimit)
    EXPECT_TRUE(hear(1, dropped, std::vector<std::byte>(kEagerLimit)));
  EXPECT_EQ(transport_.frames(FrameType::eager_credit), 1);
  // A whole frame of the group is refused, as the group is known by now.
  EXPECT_FALSE(hear(1, header, std::vector<std::byte>(kEagerLimit)));
}

TEST(MatchQueues, AreFirstInFirstOutPerKey) {
  MatchQueues match_queues;
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < 1000; ++i)
      match_queues.push({static_cast<int>(i % 7), static_cast<int>(i % 101)}, i);
    EXPECT_EQ(match_queues.size(), 1000u);
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const MatchQueues::Key key{static_cast<int>(i % 7), static_cast<int>(i % 101)};
      ASSERT_EQ(match_queues.first(key), i);
      match_queues.pop(key);
    }
    EXPECT_EQ(match_queues.size(), 0u);
    EXPECT_EQ(match_queues.first({0, 0}), MatchQueues::kNone);
    for (std::uint32_t i = 0; i < 5; ++i) match_queues.push({1, 2}, i);
    for (const std::uint32_t gone : {0u, 3u, 4u}) match_queues.erase({1, 2}, gone);
    for (const std::uint32_t left : {1u, 2u}) {
      EXPECT_EQ(match_queues.first({1, 2}), left);
      match_queues.pop({1, 2});
    }
    match_queues.each_first(
        [](MatchQueues::Key, std::uint32_t) { ADD_FAILURE() << "none is left"; });
  }
}

}  // namespace
}  // namespace tutti::engine
