// Freezes docs/wire.md. A change that breaks this test breaks jobs whose processes run two
// versions: raise kWireVersion, change the page, and only then this file.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "secure/handshake.hpp"
#include "support/hex.hpp"
#include "transport/transport.hpp"

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

TEST(WireFormat, NumbersAreFixed) {
  EXPECT_EQ(static_cast<int>(FrameType::data), 1);
  EXPECT_EQ(static_cast<int>(FrameType::credit), 2);
  EXPECT_EQ(static_cast<int>(FrameType::want), 3);
  EXPECT_EQ(static_cast<int>(FrameType::abort), 4);
  EXPECT_EQ(static_cast<int>(FrameType::ping), 5);
  EXPECT_EQ(static_cast<int>(FrameType::pong), 6);
  EXPECT_EQ(static_cast<int>(FrameType::leave), 7);
  EXPECT_EQ(static_cast<int>(FrameType::p2p_letter), 8);
  EXPECT_EQ(static_cast<int>(FrameType::p2p_credit), 9);
  EXPECT_EQ(static_cast<int>(FrameType::p2p_data), 10);
  EXPECT_EQ(static_cast<int>(FrameType::token), 11);
  EXPECT_EQ(static_cast<int>(FrameType::history), 12);
  EXPECT_EQ(kGivenUpFlag, 2);
  EXPECT_EQ(kMaxFramePayload, 131072U);
  EXPECT_EQ(secure::kWireVersion, 2);
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
            "0200"
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
            "0200"
            "0100"
            "00000000"
            "8877665544332211"
            "0900000000000000"
            "03000000"
            "02010000"
            "22222222222222222222222222222222"
            "676918b86a64fbae"
            "96c17c450bd07d157f62a870dc3c3bf0b63bd64b89c7f1c730de23119d5cc6d5");
  dialler.feed(reply);
  const Bytes proof = say(dialler);
  EXPECT_EQ(hex(proof),
            "7475747469747203"
            "f2b0bd8a9c3ebe72ae9d3a1cf94237562d94770df4fd9441212b2bf582319d31");
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
  EXPECT_EQ(hex(hello).substr(16, 8), "02000300");
  acceptor.feed(hello);
  const Bytes reply = say(acceptor);
  EXPECT_EQ(hex(reply).substr(16, 8), "02000300");
  EXPECT_EQ(hex(reply).substr(128),
            "3b9ea4adb12b776c7e3e1687cb13c6f357b7ead4c0f2ea6c6e7d553165c741db");
  EXPECT_FALSE(dialler.wants_encryption());
  dialler.feed(reply);
  EXPECT_FALSE(acceptor.wants_encryption());
  acceptor.feed(say(dialler));
  ASSERT_TRUE(dialler.wants_encryption());
  ASSERT_TRUE(acceptor.wants_encryption());
  const std::string tls_key = "73152e633d20ee829fb1be5b8687cd20a213382d9413b27b5470fe0d4fae5637";
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
            "0200"
            "0000"
            "04000000" +
                std::string(160, '0'));
}

}  // namespace
}  // namespace tutti::transport
