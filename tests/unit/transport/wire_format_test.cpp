// Freezes docs/wire.md. A change that breaks this test breaks jobs whose processes run two
// versions: raise kWireVersion, change the page, and only then this file.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "secure/handshake.hpp"
#include "support/hex.hpp"
#include "transport/frames.hpp"

namespace tutti::transport {
namespace {

using tutti::test::hex;

using Bytes = std::vector<std::byte>;

TEST(WireFormat, FrameHeadStandsAtItsOffsets) {
  EXPECT_EQ(sizeof(FrameHeader), 64U);
  EXPECT_EQ(offsetof(FrameHeader, payload_bytes), 0U);
  EXPECT_EQ(offsetof(FrameHeader, type), 4U);
  EXPECT_EQ(offsetof(FrameHeader, flags), 5U);
  EXPECT_EQ(offsetof(FrameHeader, reserved), 6U);
  EXPECT_EQ(offsetof(FrameHeader, group), 8U);
  EXPECT_EQ(offsetof(FrameHeader, seq), 16U);
  EXPECT_EQ(offsetof(FrameHeader, fingerprint), 24U);
  EXPECT_EQ(offsetof(FrameHeader, offset), 32U);
  EXPECT_EQ(offsetof(FrameHeader, call), 40U);
}

TEST(WireFormat, FrameHeadHasItsBytes) {
  FrameHeader header;
  header.payload_bytes = 0x00012345;
  header.type = static_cast<std::uint8_t>(FrameType::data);
  header.flags = 0x02;
  header.group = 0x1122334455667788;
  header.seq = 7;
  header.fingerprint = 0xa1a2a3a4a5a6a7a8;
  header.offset = 0x100000000;
  header.call[0] = 1;
  header.call[1] = 2;
  header.call[2] = 0x0300000000000000;
  const auto* bytes = reinterpret_cast<const std::byte*>(&header);
  EXPECT_EQ(hex({bytes, sizeof header}),
            "4523010001020000"
            "8877665544332211"
            "0700000000000000"
            "a8a7a6a5a4a3a2a1"
            "0000000001000000"
            "0100000000000000"
            "0200000000000000"
            "0000000000000003");
}

/// Of a head as it travels: type, flags, payload_bytes, group, seq, fingerprint, offset, call.
std::vector<std::uint64_t> fields(const FrameHeader& head) {
  EXPECT_EQ(head.reserved, 0);
  return {head.type,        head.flags,  head.payload_bytes, head.group,   head.seq,
          head.fingerprint, head.offset, head.call[0],       head.call[1], head.call[2]};
}
using Fields = std::vector<std::uint64_t>;

TEST(WireFormat, EachFrameHasItsFieldsAtTheirPlace) {
  const CallWords call{101, 102, 103};
  const DataFrame data{1, 2, 3, 4, call, 5, true};
  EXPECT_EQ(fields(encode(data)), (Fields{1, 1, 5, 1, 2, 3, 4, 101, 102, 103}));
  EXPECT_EQ(fields(encode(CreditFrame{1, 2, 3})), (Fields{2, 0, 0, 1, 2, 0, 3, 0, 0, 0}));
  EXPECT_EQ(fields(encode(WantFrame{1, 2})), (Fields{3, 0, 0, 1, 2, 0, 0, 0, 0, 0}));
  EXPECT_EQ(fields(encode(AbortFrame{1, 2, 3})), (Fields{4, 0, 0, 1, 2, 0, 3, 0, 0, 0}));
  EXPECT_EQ(fields(encode(PingFrame{1, 2, 3, call})), (Fields{5, 0, 0, 1, 2, 3, 0, 101, 102, 103}));
  EXPECT_EQ(fields(encode(PingFrame{1, 2, 3, call, true})),
            (Fields{5, 4, 0, 1, 2, 3, 0, 101, 102, 103}));
  EXPECT_EQ(fields(encode(PongFrame{1, 2, true, 3})), (Fields{6, 2, 0, 1, 2, 0, 3, 0, 0, 0}));
  EXPECT_EQ(fields(encode(PongFrame{1, 2, false, 3, true})),
            (Fields{6, 4, 0, 1, 2, 0, 3, 0, 0, 0}));
  const Envelope envelope{1, 2, 3, 4, 5, 6};
  EXPECT_EQ(fields(encode(EagerMessageFrame{envelope})), (Fields{8, 0, 6, 1, 2, 3, 0, 4, 5, 6}));
  EXPECT_EQ(fields(encode(CtsFrame{1, 2, 3, 4, 5})), (Fields{9, 0, 0, 1, 2, 3, 5, 4, 0, 0}));
  EXPECT_EQ(fields(encode(P2PDataFrame{1, 2, 3, 4, 5})), (Fields{10, 0, 5, 1, 2, 3, 4, 0, 0, 0}));
  EXPECT_EQ(fields(encode(TokenFrame{1, 2, 3, 4, call})),
            (Fields{11, 0, 0, 1, 2, 3, 4, 101, 102, 103}));
  EXPECT_EQ(fields(encode(HistoryFrame{1, 2})), (Fields{12, 0, 0, 1, 2, 0, 0, 0, 0, 0}));
  EXPECT_EQ(fields(encode(RtsFrame{envelope})), (Fields{13, 0, 0, 1, 2, 3, 0, 4, 5, 6}));
  EXPECT_EQ(fields(encode(RtsFrame{envelope, true})), (Fields{13, 8, 0, 1, 2, 3, 0, 4, 5, 6}));
  EXPECT_EQ(fields(encode(CtsFrame{1, 2, 3, 4, 5, true})), (Fields{9, 8, 0, 1, 2, 3, 5, 4, 0, 0}));
  EXPECT_EQ(fields(encode(P2PCreditFrame{1, 2})), (Fields{14, 0, 0, 0, 0, 0, 2, 1, 0, 0}));
  EXPECT_EQ(fields(encode(EagerCreditFrame{1})), (Fields{15, 0, 0, 0, 0, 0, 1, 0, 0, 0}));
}

TEST(WireFormat, EachFrameIsReadAsItWasWritten) {
  const CallWords call{101, 102, 103};
  const auto data = decode<DataFrame>(encode(DataFrame{1, 2, 3, 4, call, 5, true}));
  EXPECT_EQ(std::tie(data.group, data.seq, data.fingerprint, data.offset, data.call, data.bytes,
                     data.eager),
            std::make_tuple(1U, 2U, 3U, 4U, call, 5U, true));
  EXPECT_FALSE(decode<DataFrame>(encode(DataFrame{})).eager);
  const auto credit = decode<CreditFrame>(encode(CreditFrame{1, 2, 3}));
  EXPECT_EQ(std::tie(credit.group, credit.seq, credit.end), std::make_tuple(1U, 2U, 3U));
  const auto want = decode<WantFrame>(encode(WantFrame{1, 2}));
  EXPECT_EQ(std::tie(want.group, want.seq), std::make_tuple(1U, 2U));
  const auto abort = decode<AbortFrame>(encode(AbortFrame{1, 2, 3}));
  EXPECT_EQ(std::tie(abort.group, abort.code, abort.culprit_plus_1), std::make_tuple(1U, 2U, 3U));
  const auto ping = decode<PingFrame>(encode(PingFrame{1, 2, 3, call, true}));
  EXPECT_EQ(std::tie(ping.group, ping.seq, ping.fingerprint, ping.call, ping.asks_doing),
            std::make_tuple(1U, 2U, 3U, call, true));
  EXPECT_FALSE(decode<PingFrame>(encode(PingFrame{1, 2, 3, call})).asks_doing);
  const auto pong = decode<PongFrame>(encode(PongFrame{1, 2, true, 3}));
  EXPECT_EQ(std::tie(pong.group, pong.last_seq, pong.given_up, pong.passed, pong.tells_doing),
            std::make_tuple(1U, 2U, true, 3U, false));
  EXPECT_FALSE(decode<PongFrame>(encode(PongFrame{1, 2, false})).given_up);
  EXPECT_TRUE(decode<PongFrame>(encode(PongFrame{1, 2, false, 3, true})).tells_doing);
  const auto token = decode<TokenFrame>(encode(TokenFrame{1, 2, 3, 4, call}));
  EXPECT_EQ(std::tie(token.group, token.seq, token.fingerprint, token.round, token.call),
            std::make_tuple(1U, 2U, 3U, 4U, call));
  const auto history = decode<HistoryFrame>(encode(HistoryFrame{1, 2}));
  EXPECT_EQ(std::tie(history.group, history.seq), std::make_tuple(1U, 2U));
  for (const FrameHeader& head :
       {encode(EagerMessageFrame{{1, 2, 3, 4, 5, 6}}), encode(RtsFrame{{1, 2, 3, 4, 5, 6}})}) {
    const auto envelope = decode<Envelope>(head);
    EXPECT_TRUE(is_envelope(head));
    EXPECT_EQ(std::tie(envelope.group, envelope.number, envelope.send, envelope.dtype, envelope.tag,
                       envelope.bytes),
              std::make_tuple(1U, 2U, 3U, 4U, 5U, 6U));
  }
  const auto cts = decode<CtsFrame>(encode(CtsFrame{1, 2, 3, 4, 5}));
  EXPECT_EQ(std::tie(cts.group, cts.number, cts.send, cts.recv, cts.bytes),
            std::make_tuple(1U, 2U, 3U, 4U, 5U));
  EXPECT_FALSE(cts.on_gpus);
  EXPECT_TRUE(decode<CtsFrame>(encode(CtsFrame{1, 2, 3, 4, 5, true})).on_gpus);
  EXPECT_FALSE(decode<RtsFrame>(encode(RtsFrame{{1, 2, 3, 4, 5, 6}})).on_gpu);
  EXPECT_TRUE(decode<RtsFrame>(encode(RtsFrame{{1, 2, 3, 4, 5, 6}, true})).on_gpu);
  const auto piece = decode<P2PDataFrame>(encode(P2PDataFrame{1, 2, 3, 4, 5}));
  EXPECT_EQ(std::tie(piece.group, piece.number, piece.recv, piece.offset, piece.bytes),
            std::make_tuple(1U, 2U, 3U, 4U, 5U));
  const auto taken = decode<P2PCreditFrame>(encode(P2PCreditFrame{1, 2}));
  EXPECT_EQ(std::tie(taken.taken_messages, taken.taken_bytes), std::make_tuple(1U, 2U));
  EXPECT_EQ(decode<EagerCreditFrame>(encode(EagerCreditFrame{1})).taken_bytes, 1U);
}

TEST(WireFormat, NumbersAreFixed) {
  EXPECT_EQ(static_cast<int>(FrameType::data), 1);
  EXPECT_EQ(static_cast<int>(FrameType::credit), 2);
  EXPECT_EQ(static_cast<int>(FrameType::want), 3);
  EXPECT_EQ(static_cast<int>(FrameType::abort), 4);
  EXPECT_EQ(static_cast<int>(FrameType::ping), 5);
  EXPECT_EQ(static_cast<int>(FrameType::pong), 6);
  EXPECT_EQ(static_cast<int>(FrameType::leave), 7);
  EXPECT_EQ(static_cast<int>(FrameType::eager_message), 8);
  EXPECT_EQ(static_cast<int>(FrameType::cts), 9);
  EXPECT_EQ(static_cast<int>(FrameType::p2p_data), 10);
  EXPECT_EQ(static_cast<int>(FrameType::token), 11);
  EXPECT_EQ(static_cast<int>(FrameType::history), 12);
  EXPECT_EQ(static_cast<int>(FrameType::rts), 13);
  EXPECT_EQ(static_cast<int>(FrameType::p2p_credit), 14);
  EXPECT_EQ(static_cast<int>(FrameType::eager_credit), 15);
  EXPECT_EQ(kMaxFramePayload, 131072U);
  EXPECT_EQ(secure::kWireVersion, 5);
  EXPECT_EQ(static_cast<int>(secure::Refusal::none), 0);
  EXPECT_EQ(static_cast<int>(secure::Refusal::version), 1);
  EXPECT_EQ(static_cast<int>(secure::Refusal::secret_needed), 2);
  EXPECT_EQ(static_cast<int>(secure::Refusal::no_secret), 3);
  EXPECT_EQ(static_cast<int>(secure::Refusal::other_job), 4);
  EXPECT_EQ(static_cast<int>(secure::Refusal::other_generation), 5);
  EXPECT_EQ(static_cast<int>(secure::Refusal::wrong_rank), 6);
  EXPECT_EQ(static_cast<int>(secure::Refusal::bad_rank), 7);
  EXPECT_EQ(static_cast<int>(secure::Refusal::wrong_secret), 8);
  EXPECT_EQ(static_cast<int>(secure::Refusal::crossed), 9);
  EXPECT_EQ(static_cast<int>(secure::Refusal::connected), 10);
  EXPECT_EQ(static_cast<int>(secure::Refusal::gone), 11);
  EXPECT_EQ(static_cast<int>(secure::Refusal::encryption_needed), 12);
  EXPECT_EQ(static_cast<int>(secure::Refusal::no_encryption), 13);
  EXPECT_EQ(static_cast<int>(secure::Refusal::leaving), 14);
  EXPECT_EQ(static_cast<int>(secure::Refusal::other_key), 15);
  EXPECT_EQ(static_cast<int>(secure::Refusal::earlier_generation), 16);
  EXPECT_EQ(static_cast<int>(secure::Refusal::later_generation), 17);
}

Bytes say(secure::Handshake& from) {
  Bytes bytes(from.outgoing().begin(), from.outgoing().end());
  from.sent(bytes.size());
  return bytes;
}

// Rank 0x0102 dials rank 3; the key is "key", the nonces are 16 times 0x11 and 0x22. The
// proofs and the id of the key were computed with another implementation of HMAC-SHA256.
TEST(WireFormat, HandshakeHasItsBytes) {
  const Bytes key = {std::byte{'k'}, std::byte{'e'}, std::byte{'y'}};
  secure::Nonce first;
  secure::Nonce second;
  first.fill(std::byte{0x11});
  second.fill(std::byte{0x22});
  auto dialler = secure::Handshake::dialler({0x0102, 1000, 0x1122334455667788, 9, key}, 3, first);
  auto acceptor = secure::Handshake::acceptor({3, 1000, 0x1122334455667788, 9, key}, second);
  const Bytes hello = say(dialler);
  EXPECT_EQ(hex(hello),
            "7475747469747201"
            "0500"
            "0100"
            "00000000"
            "8877665544332211"
            "0900000000000000"
            "02010000"
            "03000000"
            "11111111111111111111111111111111"
            "676918b86a64fbae");
  acceptor.feed(hello);
  const Bytes reply = say(acceptor);
  EXPECT_EQ(hex(reply),
            "7475747469747202"
            "0500"
            "0100"
            "00000000"
            "8877665544332211"
            "0900000000000000"
            "03000000"
            "02010000"
            "22222222222222222222222222222222"
            "676918b86a64fbae"
            "fbd2d13b462397baed9a6d5e85b4951d019ff7b30e8985c4aea9192d2c124a39");
  dialler.feed(reply);
  const Bytes proof = say(dialler);
  EXPECT_EQ(hex(proof),
            "7475747469747203"
            "2ee5bf40d5553176211f83126001b28330e9882eb16bb0fd6d67af64b6c1ca6a");
  acceptor.feed(proof);
  acceptor.conclude(secure::Refusal::crossed);
  EXPECT_EQ(hex(say(acceptor)),
            "7475747469747204"
            "09000000"
            "00000000");
}

// The same two, encrypting: a bit in each head, the key of TLS, and no verdict before it.
TEST(WireFormat, HandshakeWithEncryptionHasItsBytes) {
  const Bytes key = {std::byte{'k'}, std::byte{'e'}, std::byte{'y'}};
  secure::Nonce first;
  secure::Nonce second;
  first.fill(std::byte{0x11});
  second.fill(std::byte{0x22});
  auto dialler =
      secure::Handshake::dialler({0x0102, 1000, 0x1122334455667788, 9, key, true}, 3, first);
  auto acceptor = secure::Handshake::acceptor({3, 1000, 0x1122334455667788, 9, key, true}, second);
  const Bytes hello = say(dialler);
  EXPECT_EQ(hex(hello).substr(16, 8), "05000300");
  acceptor.feed(hello);
  const Bytes reply = say(acceptor);
  EXPECT_EQ(hex(reply).substr(16, 8), "05000300");
  EXPECT_EQ(hex(reply).substr(128),
            "312475e03da89f26ae141d6498bd492a6b32046d6c9088daac8e1d86c0a20e68");
  EXPECT_FALSE(dialler.wants_encryption());
  dialler.feed(reply);
  EXPECT_FALSE(acceptor.wants_encryption());
  acceptor.feed(say(dialler));
  ASSERT_TRUE(dialler.wants_encryption());
  ASSERT_TRUE(acceptor.wants_encryption());
  const std::string tls_key = "3e8d117751ee4d5e9e7863669900330415d0cb57850a4e87713516256fec2bb8";
  EXPECT_EQ(hex(dialler.key_of_encryption().value()), tls_key);
  EXPECT_EQ(hex(acceptor.key_of_encryption().value()), tls_key);
}

TEST(WireFormat, RefusalHasItsBytes) {
  secure::Nonce nonce;
  nonce.fill(std::byte{0x11});
  auto dialler = secure::Handshake::dialler({0, 2, 5, 1, {}}, 1, nonce);
  auto acceptor = secure::Handshake::acceptor({1, 2, 6, 1, {}}, nonce);
  acceptor.feed(say(dialler));
  EXPECT_EQ(hex(say(acceptor)),
            "7475747469747202"
            "0500"
            "0000"
            "04000000" +
                std::string(160, '0'));
}

}  // namespace
}  // namespace tutti::transport
