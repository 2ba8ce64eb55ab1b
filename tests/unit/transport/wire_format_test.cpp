// Freezes docs/design/wire.md. A change that breaks this test breaks jobs whose processes run two
// versions: raise kWireVersion, change the page, and only then this file.

#include <gtest/gtest.h>

#include <vector>

#include "secure/handshake.hpp"
#include "support/hex.hpp"
#include "transport/frames.hpp"

namespace tutti::transport {
namespace {

using tutti::test::hex;

using Bytes = std::vector<std::byte>;
using Fields = std::vector<std::uint64_t>;

TEST(WireFormat, FrameHeadStandsAtItsOffsets) {
  EXPECT_EQ((Fields{offsetof(FrameHeader, payload_bytes), offsetof(FrameHeader, type),
                    offsetof(FrameHeader, flags), offsetof(FrameHeader, reserved),
                    offsetof(FrameHeader, group), offsetof(FrameHeader, seq),
                    offsetof(FrameHeader, fingerprint), offsetof(FrameHeader, offset),
                    offsetof(FrameHeader, call), sizeof(FrameHeader)}),
            (Fields{0, 4, 5, 6, 8, 16, 24, 32, 40, 64}));
}

TEST(WireFormat, FrameHeadHasItsBytes) {
  const FrameHeader header{.payload_bytes = 0x00012345,
                           .type = static_cast<std::uint8_t>(FrameType::data),
                           .flags = 0x02,
                           .group = 0x1122334455667788,
                           .seq = 7,
                           .fingerprint = 0xa1a2a3a4a5a6a7a8,
                           .offset = 0x100000000,
                           .call = {1, 2, 0x0300000000000000}};
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
Fields fields(const FrameHeader& head) {
  EXPECT_EQ(head.reserved, 0);
  return {head.type,        head.flags,  head.payload_bytes, head.group,   head.seq,
          head.fingerprint, head.offset, head.call[0],       head.call[1], head.call[2]};
}

/// It is written so, and what is written of one that was read is what was read: as each field has
/// its own place in what is written, each is read from there.
template <class Frame>
void expect_fields(const Frame& frame, const Fields& expected) {
  EXPECT_EQ(fields(encode(frame)), expected);
  EXPECT_EQ(fields(encode(decode<Frame>(encode(frame)))), expected);
}

TEST(WireFormat, EachFrameHasItsFieldsAtTheirPlace) {
  const CallWords call{101, 102, 103};
  expect_fields(DataFrame{1, 2, 3, 4, call, 5, true}, {1, 1, 5, 1, 2, 3, 4, 101, 102, 103});
  expect_fields(DataFrame{}, {1, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  expect_fields(CreditFrame{1, 2, 3}, {2, 0, 0, 1, 2, 0, 3, 0, 0, 0});
  expect_fields(WantFrame{1, 2}, {3, 0, 0, 1, 2, 0, 0, 0, 0, 0});
  expect_fields(AbortFrame{1, 2, 3}, {4, 0, 0, 1, 2, 0, 3, 0, 0, 0});
  expect_fields(PingFrame{1, 2, 3, call}, {5, 0, 0, 1, 2, 3, 0, 101, 102, 103});
  expect_fields(PingFrame{1, 2, 3, call, true}, {5, 4, 0, 1, 2, 3, 0, 101, 102, 103});
  expect_fields(PingFrame{1, 0, 0, {}, false, 4}, {5, 0, 0, 1, 0, 0, 4, 0, 0, 0});
  expect_fields(PongFrame{1, 2, true, 3}, {6, 2, 0, 1, 2, 0, 3, 0, 0, 0});
  expect_fields(PongFrame{1, 2, false}, {6, 0, 0, 1, 2, 0, 0, 0, 0, 0});
  expect_fields(PongFrame{1, 2, false, 3, true}, {6, 4, 0, 1, 2, 0, 3, 0, 0, 0});
  expect_fields(PongFrame{1, 2, false, 3, false, {4, 5, 6}, 7}, {6, 0, 0, 1, 2, 7, 3, 4, 5, 6});
  expect_fields(CtsFrame{1, 2, 3, 4, 5}, {9, 0, 0, 1, 2, 3, 5, 4, 0, 0});
  expect_fields(CtsFrame{1, 2, 3, 4, 5, true}, {9, 8, 0, 1, 2, 3, 5, 4, 0, 0});
  expect_fields(P2PDataFrame{1, 2, 3, 4, 5}, {10, 0, 5, 1, 2, 3, 4, 0, 0, 0});
  expect_fields(P2PDataFrame{1, 2, 3, 4, 5, true}, {10, 16, 5, 1, 2, 3, 4, 0, 0, 0});
  expect_fields(TokenFrame{1, 2, 3, 4, call}, {11, 0, 0, 1, 2, 3, 4, 101, 102, 103});
  expect_fields(HistoryFrame{1, 2}, {12, 0, 0, 1, 2, 0, 0, 0, 0, 0});
  const Envelope envelope{1, 2, 3, 4, 5, 6};
  expect_fields(RtsFrame{envelope}, {13, 0, 0, 1, 2, 3, 0, 4, 5, 6});
  expect_fields(RtsFrame{envelope, true}, {13, 8, 0, 1, 2, 3, 0, 4, 5, 6});
  expect_fields(RtsFrame{envelope, false, 7}, {13, 0, 0, 1, 2, 3, 7, 4, 5, 6});
  expect_fields(P2PCreditFrame{1, 2}, {14, 0, 0, 0, 0, 0, 2, 1, 0, 0});
  expect_fields(EagerCreditFrame{1}, {15, 0, 0, 0, 0, 0, 1, 0, 0, 0});
  EXPECT_EQ(fields(encode(EagerMessageFrame{envelope})), (Fields{8, 0, 6, 1, 2, 3, 0, 4, 5, 6}));
  for (const FrameHeader& head :
       {encode(EagerMessageFrame{envelope}), encode(RtsFrame{envelope})}) {
    EXPECT_TRUE(is_envelope(head));
    EXPECT_EQ(fields(encode(RtsFrame{decode<Envelope>(head)})), fields(encode(RtsFrame{envelope})));
  }
}

TEST(WireFormat, NumbersAreFixed) {
  using enum FrameType;
  int number = 0;
  for (const FrameType type : {data, credit, want, abort, ping, pong, leave, eager_message, cts,
                               p2p_data, token, history, rts, p2p_credit, eager_credit})
    EXPECT_EQ(static_cast<int>(type), ++number);
  EXPECT_EQ(kMaxFramePayload, 131072U);
  EXPECT_EQ(secure::kWireVersion, 8);
  using enum secure::Refusal;
  number = 0;
  for (const secure::Refusal refusal :
       {none, version, secret_needed, no_secret, other_job, other_generation, wrong_rank, bad_rank,
        wrong_secret, crossed, connected, gone, encryption_needed, no_encryption, leaving,
        other_key, earlier_generation, later_generation, relayed})
    EXPECT_EQ(static_cast<int>(refusal), number++);
}

Bytes say(secure::Handshake& from) {
  Bytes bytes(from.outgoing().begin(), from.outgoing().end());
  from.sent(bytes.size());
  return bytes;
}

secure::Nonce nonce_of(int value) {
  secure::Nonce nonce;
  nonce.fill(static_cast<std::byte>(value));
  return nonce;
}

/// Where the acceptor is dialled.
os::Address place() { return os::Address::parse("10.0.0.3", 0x1234).value(); }

/// A rank of the job; the key is "key".
secure::Party party(int rank, bool encrypt) {
  const std::vector key = {std::byte{'k'}, std::byte{'e'}, std::byte{'y'}};
  return {rank, 1000, 0x1122334455667788, 9, SecretBytes(key), encrypt};
}

// Rank 0x0102 dials rank 3; the nonces are 16 times 0x11 and 0x22. The
// proofs and the id of the key were computed with another implementation of HMAC-SHA256.
TEST(WireFormat, HandshakeHasItsBytes) {
  auto dialler = secure::Handshake::dialler(party(0x0102, false), 3, nonce_of(0x11), place());
  auto acceptor = secure::Handshake::acceptor(party(3, false), nonce_of(0x22), place());
  const Bytes hello = say(dialler);
  EXPECT_EQ(hex(hello),
            "7475747469747201"
            "0800"
            "0100"
            "3412"
            "0000"
            "8877665544332211"
            "0900000000000000"
            "02010000"
            "03000000"
            "11111111111111111111111111111111"
            "676918b86a64fbae"
            "00000000000000000000ffff0a000003");
  acceptor.feed(hello);
  const Bytes reply = say(acceptor);
  EXPECT_EQ(hex(reply),
            "7475747469747202"
            "0800"
            "0100"
            "00000000"
            "8877665544332211"
            "0900000000000000"
            "03000000"
            "02010000"
            "22222222222222222222222222222222"
            "676918b86a64fbae"
            "3594e11b53051436f47a8fcfaf30132deecb2b4f3e5945613a9e715a66dc314c");
  dialler.feed(reply);
  const Bytes proof = say(dialler);
  EXPECT_EQ(hex(proof),
            "7475747469747203"
            "3d91434edfe5632291cdeeeb3e99fa44b78956edcf6fcbe77a39918c497a17c0");
  acceptor.feed(proof);
  acceptor.conclude(secure::Refusal::crossed);
  EXPECT_EQ(hex(say(acceptor)),
            "7475747469747204"
            "09000000"
            "00000000");
}

// The same two, encrypting: a bit in each head, the key of TLS, and no verdict before it.
TEST(WireFormat, HandshakeWithEncryptionHasItsBytes) {
  auto dialler = secure::Handshake::dialler(party(0x0102, true), 3, nonce_of(0x11), place());
  auto acceptor = secure::Handshake::acceptor(party(3, true), nonce_of(0x22), place());
  const Bytes hello = say(dialler);
  EXPECT_EQ(hex(hello).substr(16, 8), "08000300");
  acceptor.feed(hello);
  const Bytes reply = say(acceptor);
  EXPECT_EQ(hex(reply).substr(16, 8), "08000300");
  EXPECT_EQ(hex(reply).substr(128),
            "4972b54172779eedd657e78000ba5ea775cc816495c7d004d5b4acd4e8a920a9");
  EXPECT_FALSE(dialler.wants_encryption());
  dialler.feed(reply);
  EXPECT_FALSE(acceptor.wants_encryption());
  acceptor.feed(say(dialler));
  ASSERT_TRUE(dialler.wants_encryption());
  ASSERT_TRUE(acceptor.wants_encryption());
  const std::string tls_key = "2b86924ee7cc55e2b03273e9c5b8d9d8e9c6652549b5be586ed51d43ec6dc8f1";
  EXPECT_EQ(hex(dialler.key_of_encryption().value()), tls_key);
  EXPECT_EQ(hex(acceptor.key_of_encryption().value()), tls_key);
}

TEST(WireFormat, RefusalHasItsBytes) {
  auto dialler = secure::Handshake::dialler({0, 2, 5, 1, {}}, 1, nonce_of(0x11), place());
  auto acceptor = secure::Handshake::acceptor({1, 2, 6, 1, {}}, nonce_of(0x11), place());
  acceptor.feed(say(dialler));
  EXPECT_EQ(hex(say(acceptor)),
            "7475747469747202"
            "0800"
            "0000"
            "04000000" +
                std::string(160, '0'));
}

// It arrives at another port of that host, which is one of ours.
TEST(WireFormat, RefusalOfARelayHasItsBytes) {
  const auto arrived = os::Address::parse("127.0.0.1", 0x1235).value();
  auto dialler = secure::Handshake::dialler(party(0x0102, false), 3, nonce_of(0x11),
                                            os::Address::parse("127.0.0.1", 0x1234).value());
  auto acceptor = secure::Handshake::acceptor(party(3, false), nonce_of(0x22), arrived);
  acceptor.feed(say(dialler));
  EXPECT_EQ(hex(say(acceptor)),
            "7475747469747202"
            "0800"
            "0100"
            "12000000" +
                std::string(48, '0') +
                "00000000000000000000ffff7f000001"
                "3512" +
                std::string(76, '0'));
}

}  // namespace
}  // namespace tutti::transport
