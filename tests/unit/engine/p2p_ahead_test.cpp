#include <algorithm>
#include <utility>

#include "engine/p2p_matcher.hpp"
#include "lone_engine.hpp"
#include "support/memory_in_use.hpp"

// Bytes of a large message that come ahead of its CTS: which are sent, where they land, and what a
// peer that lies can do.
namespace tutti::engine {
namespace {

using namespace transport;

constexpr std::uint64_t kPiece = kMaxFramePayload;
constexpr std::uint64_t kOpenWindow = eager_windows(3).messages;
constexpr std::uint64_t kFirst = 2 * kPiece;  // of a message that the window does not take

TEST(BytesAhead, LeaveRoomForTheMessagesThatProgramsRelyOn) {
  for (const std::size_t ranks : {1U, 16U, 33U, 65U, 129U, 257U, 5000U}) {
    const std::uint64_t window = eager_windows(ranks).messages;
    CreditAccount account(window, window / 4);
    while (const std::uint64_t ahead = bytes_ahead(window, account.room(), window))
      account.send(ahead);
    // Bytes that the receiver has taken and not reported yet count as if they waited.
    account.send(window / 4 - 1);
    EXPECT_GE(account.room(), kEagerLimit) << ranks;
  }
  EXPECT_EQ(bytes_ahead(kOpenWindow, kOpenWindow, kOpenWindow), kFirst);
  EXPECT_EQ(bytes_ahead(5 * kPiece + 1, kOpenWindow, kOpenWindow), 5 * kPiece + 1);
  EXPECT_EQ(bytes_ahead(3 * kPiece, kOpenWindow / 4 + kEagerLimit + kPiece + 9, kOpenWindow),
            kPiece);
}

class P2PAheadTest : public P2PWorld {
 protected:
  static FrameHeader rts(std::uint64_t number, std::uint64_t bytes, std::uint64_t ahead,
                         std::uint64_t group = 1, bool on_gpu = false) {
    return encode(RtsFrame{envelope(number, bytes, 0, group), on_gpu, ahead});
  }
  static FrameHeader piece(std::uint64_t number, std::uint64_t offset, std::uint64_t bytes,
                           std::uint64_t group = 1) {
    return encode(P2PDataFrame{group, number, 0, offset, static_cast<std::uint32_t>(bytes), true});
  }
  /// Rank 1 sends a piece of its message, whose bytes are those of `sent_`.
  bool hear_piece(std::uint64_t number, std::uint64_t offset, std::uint64_t bytes,
                  std::uint64_t group = 1) {
    return hear(1, piece(number, offset, bytes, group), part(offset, bytes));
  }
  [[nodiscard]] std::vector<std::byte> part(std::uint64_t offset, std::uint64_t bytes) const {
    const auto all = std::as_bytes(std::span(sent_));
    return {all.begin() + static_cast<std::ptrdiff_t>(offset),
            all.begin() + static_cast<std::ptrdiff_t>(offset + bytes)};
  }
  [[nodiscard]] P2PDataFrame last_data() const {
    return decode<P2PDataFrame>(transport_.sent.back());
  }
  static Bytes numbered(std::size_t bytes) {
    Bytes values(bytes);
    for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::uint8_t>(i * 7 + i / 999);
    return values;
  }

  Bytes sent_ = numbered(2 * kPiece + 1000);
};

TEST_F(P2PAheadTest, AMessageWithinTheWindowWaitsForNobody) {
  const auto ticket = send(world_, sent_, 1);
  EXPECT_TRUE(done(world_, ticket));
  ASSERT_EQ(transport_.sent.size(), 4U);
  EXPECT_EQ(decode<RtsFrame>(transport_.sent[0]).ahead, sent_.size());
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto data = decode<P2PDataFrame>(transport_.sent[i + 1]);
    EXPECT_TRUE(data.ahead);
    EXPECT_EQ(data.offset, i * kPiece);
    EXPECT_EQ(data.bytes, i < 2 ? kPiece : 1000);
  }
  EXPECT_TRUE(hear(1, encode(CtsFrame{1, 1, decode<Envelope>(transport_.sent[0]).send, 9, 1})));
  settle();
  EXPECT_EQ(transport_.sent.size(), 4U) << "a CTS that nobody needs";
}

TEST_F(P2PAheadTest, TheRestOfALargeMessageWaitsForItsCts) {
  Bytes large(kOpenWindow);
  Bytes small(3);
  const auto ticket = send(world_, large, 1);
  const auto behind = send(world_, small, 1);
  EXPECT_TRUE(done(world_, behind));
  EXPECT_FALSE(done(world_, ticket));
  EXPECT_EQ(decode<RtsFrame>(transport_.sent[0]).ahead, kFirst);
  EXPECT_EQ(transport_.bytes(FrameType::p2p_data, 1), kFirst);
  const auto sent = decode<Envelope>(transport_.sent[0]);
  EXPECT_TRUE(hear(1, encode(CtsFrame{1, 1, sent.send, 99, large.size()})));
  EXPECT_TRUE(done(world_, ticket));
  EXPECT_EQ(last_data().recv, 99U);
  EXPECT_FALSE(last_data().ahead);
  EXPECT_EQ(last_data().offset, large.size() - kPiece);
  // Such bytes take from the window, so those of later ones wait.
  do {
    EXPECT_FALSE(done(world_, send(world_, large, 1)));
  } while (transport_.sent.back().type != static_cast<std::uint8_t>(FrameType::rts));
  EXPECT_EQ(transport_.frames(FrameType::rts), 7);
  Bytes largest(kEagerLimit);
  EXPECT_TRUE(done(world_, send(world_, largest, 1))) << "programs rely on that";
}

TEST_F(P2PAheadTest, ACtsMayComeWhileBytesGoAhead) {
  Bytes large(kOpenWindow);
  transport_.room = 2;
  const auto ticket = send(world_, large, 1);
  ASSERT_EQ(transport_.sent.size(), 2U);
  const auto sent = decode<Envelope>(transport_.sent[0]);
  EXPECT_TRUE(hear(1, encode(CtsFrame{1, 1, sent.send, 99, large.size()})));
  transport_.room = 100;
  EXPECT_TRUE(done(world_, ticket));
  ASSERT_EQ(transport_.sent.size(), 1 + large.size() / kPiece);
  for (std::size_t i = 1; i < transport_.sent.size(); ++i) {
    const auto data = decode<P2PDataFrame>(transport_.sent[i]);
    EXPECT_EQ(data.offset, (i - 1) * kPiece);
    EXPECT_EQ(data.ahead, i < 3);
  }
}

TEST_F(P2PAheadTest, TheBytesLandInTheRecvThatWaits) {
  Bytes got(sent_.size());
  const auto ticket = recv(world_, got, any_source);
  EXPECT_TRUE(hear(1, rts(1, got.size(), got.size())));
  const FrameHeader first = piece(1, 0, kPiece);
  EXPECT_EQ(static_cast<void*>(transport_.sink().on_header(1, first).data()), got.data());
  std::copy_n(sent_.begin(), kPiece, got.begin());
  transport_.sink().on_frame(1, first);
  EXPECT_TRUE(hear_piece(1, kPiece, kPiece));
  EXPECT_FALSE(done(world_, ticket));
  EXPECT_FALSE(engine_.cancel(world_, ticket)) << "the bytes are on their way into its buffer";
  EXPECT_TRUE(hear_piece(1, 2 * kPiece, 1000));
  EXPECT_TRUE(done(world_, ticket));
  EXPECT_EQ(got, sent_);
  EXPECT_EQ(transport_.frames(FrameType::cts), 0);
  // Room that recvs have taken is free for others.
  std::uint64_t number = 1;
  while (number * sent_.size() < 2 * kOpenWindow) {
    (void)recv(world_, got, 1);
    EXPECT_TRUE(hear(1, rts(++number, got.size(), got.size())));
    for (const std::uint64_t at : {std::uint64_t{0}, kPiece, 2 * kPiece})
      EXPECT_TRUE(hear_piece(number, at, std::min(kPiece, got.size() - at)));
  }
  settle();
  EXPECT_EQ(transport_.frames(FrameType::p2p_credit), 8) << "after each quarter of the window";
}

TEST_F(P2PAheadTest, ARecvTakesWhatIsHereAndGetsTheOthers) {
  // The recv is called after so many pieces; at 3 while the last is arriving.
  for (std::uint64_t pieces = 0; pieces <= 4; ++pieces) {
    for (const bool strided : {false, true}) {
      SCOPED_TRACE(std::to_string(pieces) + (strided ? " strided" : ""));
      const std::uint64_t number = 2 * pieces + (strided ? 2 : 1);
      EXPECT_TRUE(hear(1, rts(number, sent_.size(), sent_.size())));
      Bytes got(strided ? 2 * sent_.size() : sent_.size());
      const std::int64_t shape[] = {static_cast<std::int64_t>(sent_.size())};
      const std::int64_t strides[] = {2};
      const TensorView to =
          strided ? TensorView(got.data(), DType::uint8, shape, strides) : TensorView(got);
      std::uint64_t ticket = 0;
      const auto receive = [&] {
        ticket = engine_.submit(world_, {.kind = Kind::recv,
                                         .root = 1,
                                         .timeout = std::chrono::seconds(1),
                                         .input = {},
                                         .output = to});
      };
      for (std::uint64_t i = 0; i < 3; ++i) {
        if (i == pieces) receive();
        const std::uint64_t bytes = i < 2 ? kPiece : 1000;
        const FrameHeader header = piece(number, i * kPiece, bytes);
        const std::span<std::byte> into = transport_.sink().on_header(1, header);
        ASSERT_GE(into.size(), bytes);
        if (i == 2 && pieces == 3) receive();
        std::ranges::copy(part(i * kPiece, bytes), into.begin());
        transport_.sink().on_frame(1, header);
      }
      if (pieces == 4) receive();
      ASSERT_TRUE(done(world_, ticket));
      for (std::size_t i = 0; i < sent_.size(); ++i)
        ASSERT_EQ(got[strided ? 2 * i : i], sent_[i]) << i;
      engine_.release(world_, ticket);
    }
  }
  EXPECT_EQ(transport_.frames(FrameType::cts), 0);
}

TEST_F(P2PAheadTest, AProbeFindsAMessageBeforeItsBytes) {
  const auto probe = call(world_, Kind::probe, 1, 0, nullptr);
  EXPECT_TRUE(hear(1, rts(1, sent_.size(), 2 * kPiece)));
  EXPECT_TRUE(done(world_, probe));
  EXPECT_TRUE(hear_piece(1, 0, kPiece));
  Details details;
  details.probed = probe;
  Bytes got(sent_.size());
  const auto ticket = call(world_, Kind::recv, 1, 0, &got, std::chrono::seconds(1), &details);
  EXPECT_TRUE(hear_piece(1, kPiece, kPiece));
  EXPECT_FALSE(done(world_, ticket));
  ASSERT_EQ(transport_.frames(FrameType::cts), 1) << "for the bytes that stay with the sender";
  const FrameHeader rest =
      encode(P2PDataFrame{1, 1, decode<CtsFrame>(transport_.sent.back()).recv, 2 * kPiece, 1000});
  EXPECT_TRUE(hear(1, rest, part(2 * kPiece, 1000)));
  EXPECT_TRUE(done(world_, ticket));
  EXPECT_EQ(got, sent_);
}

TEST_F(P2PAheadTest, PiecesOfAGroupThatIsNotMadeYetAreHeld) {
  for (const int held : {0, 1, 2}) {  // pieces before the group is made; at 2 the next is arriving
    const auto id = static_cast<std::uint64_t>(5 + held);
    EXPECT_FALSE(hear_piece(1, 0, kPiece, id)) << "no message";
    EXPECT_TRUE(hear(1, rts(1, sent_.size(), sent_.size(), id)));
    EXPECT_FALSE(hear_piece(1, kPiece, kPiece, id)) << "a hole";
    EXPECT_FALSE(hear_piece(1, 0, 1000, id)) << "not a whole piece";
    for (int i = 0; i < std::min(held, 1); ++i) EXPECT_TRUE(hear_piece(1, 0, kPiece, id));
    const std::uint64_t at = held == 0 ? 0 : kPiece;
    const FrameHeader next = piece(1, at, kPiece, id);
    std::span<std::byte> into;
    if (held == 2) into = transport_.sink().on_header(1, next);
    Group& late = group(id);
    if (held != 2) into = transport_.sink().on_header(1, next);
    ASSERT_GE(into.size(), kPiece);
    std::ranges::copy(part(at, kPiece), into.begin());
    transport_.sink().on_frame(1, next);
    Bytes got(sent_.size());
    const auto ticket = recv(late, got, 1);
    if (held == 0) {
      EXPECT_TRUE(hear_piece(1, kPiece, kPiece, id));
    }
    EXPECT_TRUE(hear_piece(1, 2 * kPiece, 1000, id));
    EXPECT_TRUE(done(late, ticket));
    EXPECT_EQ(got, sent_);
  }
}

TEST_F(P2PAheadTest, ALiarIsRefused) {
  EXPECT_FALSE(hear(1, rts(1, kEagerLimit, kEagerLimit))) << "it would be eager";
  EXPECT_FALSE(hear(1, rts(1, 2 * kPiece, 3 * kPiece))) << "more than it has";
  EXPECT_FALSE(hear(1, rts(1, 2 * kPiece, kPiece + 64))) << "a part of a piece";
  EXPECT_FALSE(hear(1, rts(1, 2 * kPiece, kPiece, 1, true))) << "from a GPU";
  EXPECT_FALSE(hear_piece(1, 0, kPiece)) << "no message";
  Bytes got(sent_.size());
  const auto ticket = recv(world_, got, 1);
  EXPECT_TRUE(hear(1, rts(1, got.size(), 2 * kPiece)));
  settle();
  const auto cts = decode<CtsFrame>(transport_.sent.back());
  EXPECT_FALSE(hear_piece(1, kPiece, kPiece)) << "a hole";
  EXPECT_FALSE(hear_piece(1, 0, 1000)) << "not a whole piece";
  EXPECT_FALSE(hear_piece(2, 0, kPiece)) << "of another message";
  EXPECT_FALSE(hear(2, piece(1, 0, kPiece))) << "of another rank";
  EXPECT_FALSE(hear(1, eager(2, 4))) << "a message between its pieces";
  EXPECT_FALSE(hear(1, encode(P2PDataFrame{1, 1, cts.recv, 0, 1000}))) << "not the last bytes";
  EXPECT_TRUE(hear_piece(1, 0, kPiece));
  EXPECT_TRUE(hear_piece(1, kPiece, kPiece));
  EXPECT_FALSE(hear_piece(1, 2 * kPiece, 1000)) << "more than it announced";
  EXPECT_FALSE(done(world_, ticket));
  EXPECT_TRUE(hear(1, eager(2, 4), std::vector<std::byte>(4)));
}

TEST_F(P2PAheadTest, MoreThanTheWindowIsRefusedAndItsMemoryIsBounded) {
  for (const bool made : {true, false}) {
    SCOPED_TRACE(made ? "in a group" : "in a group that nobody made");
    const std::size_t before = test::memory_in_use();
    const std::uint64_t group = made ? 1 : 7;
    const int peer = made ? 1 : 2;
    for (std::uint64_t number = 1; number <= kOpenWindow / kPiece; ++number) {
      ASSERT_TRUE(hear(peer, rts(number, kPiece, kPiece, group)));
      ASSERT_TRUE(hear(peer, piece(number, 0, kPiece, group), part(0, kPiece)));
    }
    EXPECT_FALSE(hear(peer, rts(kOpenWindow / kPiece + 1, kPiece, kPiece, group)));
    EXPECT_LE(test::memory_in_use() - before, 2 * kOpenWindow);
  }
}

/// The buffers of frames are kept for later ones. A message of the size of one is none of them.
TEST_F(P2PAheadTest, MessagesThatWereReceivedTakeNoMemory) {
  const std::size_t before = test::memory_in_use();
  const std::uint64_t announced = 8 * kPiece;
  Bytes got(announced);
  for (std::uint64_t number = 1; number <= 64; number += 2) {
    ASSERT_TRUE(hear(1, rts(number, kPiece, kPiece)));
    ASSERT_TRUE(hear_piece(number, 0, kPiece));
    Bytes one(kPiece);
    ASSERT_TRUE(done(world_, recv(world_, one, 1)));
    // Of this one a piece is here when its recv is called.
    ASSERT_TRUE(hear(1, rts(number + 1, announced, announced)));
    ASSERT_TRUE(hear_piece(number + 1, 0, kPiece));
    const auto ticket = recv(world_, got, 1);
    for (std::uint64_t i = 1; i < announced / kPiece; ++i)
      ASSERT_TRUE(hear(1, piece(number + 1, i * kPiece, kPiece), part(0, kPiece)));
    ASSERT_TRUE(done(world_, ticket));
  }
  EXPECT_LE(test::memory_in_use() - before, 2 * announced);
}

TEST_F(P2PAheadTest, ABrokenGroupDropsWhatStillComes) {
  Bytes got(sent_.size());
  (void)recv(world_, got, 1);
  EXPECT_TRUE(hear(1, rts(1, got.size(), got.size())));
  const FrameHeader first = piece(1, 0, kPiece);
  ASSERT_FALSE(transport_.sink().on_header(1, first).empty());
  engine_.break_group(world_, Outcome(Errc::aborted, "stopped"));
  EXPECT_EQ(transport_.dropped, 1);
  EXPECT_TRUE(hear_piece(1, kPiece, kPiece));
  EXPECT_TRUE(hear_piece(1, 2 * kPiece, 1000));
  EXPECT_EQ(got, Bytes(sent_.size()));
}

}  // namespace
}  // namespace tutti::engine
