#include "store/wire.hpp"
#include "base/fnv.hpp"

#include <gmock/gmock.h>

#include <random>

#include "store/credentials.hpp"
#include "support/hex.hpp"

using namespace tutti::store;
using tutti::Errc;

namespace {

using Bytes = std::vector<std::byte>;

tutti::Result<Request> parse(std::span<const std::byte> frame, const Limits& limits = {}) {
  if (frame.size() < kHeaderBytes) return tutti::Outcome(Errc::store, "short");
  auto header = parse_header(frame.first<kHeaderBytes>(), limits);
  if (!header) return header.status();
  return parse_request(*header, frame.subspan(kHeaderBytes), limits);
}

Request sample() {
  return {.op = Op::multi_set,
          .timeout_ms = 1234567,
          .amount = -42,
          .keys = {"alpha", std::string("\0b", 2)},
          .values = {"", std::string(300, 'x')}};
}

tutti::Result<Response> parse_answer(const Bytes& frame, const Limits& limits = {}) {
  const std::span<const std::byte> bytes(frame);
  auto header = parse_header(bytes.first<kHeaderBytes>(), limits);
  if (!header) return header.status();
  return parse_response(*header, bytes.subspan(kHeaderBytes), limits);
}

template <std::size_t N>
void expect_bytes(const Bytes& frame, const unsigned char (&expected)[N]) {
  EXPECT_THAT(frame, testing::ElementsAreArray(std::as_bytes(std::span(expected))));
}

void put32(Bytes& frame, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) frame[at + i] = static_cast<std::byte>(value >> (8 * i));
}

TEST(StoreWire, RequestsComeBackAsTheyWere) {
  const Request request = sample();
  const Bytes frame = encode_request(request, 0x0123456789abcdef);
  const auto header = parse_header(std::span(frame).first<kHeaderBytes>(), {}).value();
  EXPECT_EQ(header.id, 0x0123456789abcdefU);
  EXPECT_EQ(header.op, static_cast<std::uint8_t>(Op::multi_set));
  const Request parsed = parse(frame).value();
  EXPECT_EQ(parsed.timeout_ms, request.timeout_ms);
  EXPECT_EQ(parsed.amount, request.amount);
  EXPECT_EQ(parsed.keys, request.keys);
  EXPECT_EQ(parsed.values, request.values);
}

TEST(StoreWire, ResponsesComeBackAsTheyWere) {
  const Response response{.code = Errc::timeout,
                          .text = "why",
                          .number = INT64_MIN,
                          .values = {"a", "", std::string(1000, 'z')}};
  const Response parsed = parse_answer(encode_response(response, 7, {})).value();
  EXPECT_EQ(parsed.code, response.code);
  EXPECT_EQ(parsed.text, response.text);
  EXPECT_EQ(parsed.number, response.number);
  EXPECT_EQ(parsed.values, response.values);
}

// The layout of docs/design/wire-store.md, byte by byte: a change here is another version.
TEST(StoreWire, TheLayoutIsFrozen) {
  const Request request{.op = Op::compare_set,
                        .timeout_ms = 0x01020304,
                        .amount = 1,
                        .keys = {"k"},
                        .values = {"", "vw"}};
  const unsigned char expected[] = {
      35,   0,    0,    0,    6,   0,  0, 0, 9, 0, 0, 0, 0, 0, 0, 0,  // header
      0x04, 0x03, 0x02, 0x01, 1,   0,  0, 0, 2, 0, 0, 0,              // timeout, keys, values
      1,    0,    0,    0,    0,   0,  0, 0,                          // amount
      1,    0,    0,    0,    'k',                                    // key
      0,    0,    0,    0,                                            // value 0
      2,    0,    0,    0,    'v', 'w'};                              // value 1
  expect_bytes(encode_request(request, 9), expected);
}

TEST(StoreWire, TheLayoutOfAWillIsFrozen) {
  EXPECT_EQ(tutti::secure::kStoreVersion, 4);
  Request request{.op = Op::set_will, .keys = {"k"}, .values = {"v"}};
  const unsigned char expected[] = {30, 0, 0, 0, 18, 0, 0, 0, 3, 0, 0, 0, 0,   0, 0, 0,  // header
                                    0,  0, 0, 0, 1,  0, 0, 0, 1, 0, 0, 0,                // counts
                                    0,  0, 0, 0, 0,  0, 0, 0, 1, 0, 0, 0, 'k',           // key
                                    1,  0, 0, 0, 'v'};
  Bytes frame = encode_request(request, 3);
  expect_bytes(frame, expected);
  EXPECT_TRUE(parse(frame));
  request.op = Op::drop_will;
  EXPECT_FALSE(parse(encode_request(request, 3))) << "a value too many";
  request.values.clear();
  frame = encode_request(request, 3);
  EXPECT_EQ(frame[4], std::byte{19});
  EXPECT_TRUE(parse(frame));
  request = {.op = Op::enroll, .keys = {"counter", "before", "behind"}, .values = {"v"}};
  frame = encode_request(request, 3);
  EXPECT_EQ(frame[4], std::byte{20});
  EXPECT_TRUE(parse(frame));
}

TEST(StoreWire, EveryCutIsRefused) {
  const Bytes frame = encode_request(sample(), 1);
  for (std::size_t size = 0; size < frame.size(); ++size)
    EXPECT_FALSE(parse(std::span(frame).first(size))) << size;
  Bytes longer = frame;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(parse(longer));
}

TEST(StoreWire, LyingLengthsAreRefusedBeforeMemoryIsTaken) {
  const Bytes good = encode_request(sample(), 1);
  ASSERT_TRUE(parse(good));
  for (const std::size_t behind : {4, 8, 20}) {  // the header: keys, values, the first key
    for (const std::uint32_t lie : {0xffffffffU, 0x7fffffffU, 0x10000U, 400U}) {
      Bytes frame = good;
      put32(frame, kHeaderBytes + behind, lie);
      EXPECT_FALSE(parse(frame)) << behind << " " << lie;
    }
  }
  Bytes longer = good;
  longer.push_back(std::byte{0});
  put32(longer, 0, static_cast<std::uint32_t>(longer.size() - kHeaderBytes));
  EXPECT_FALSE(parse(longer)) << "a byte behind the last value";
  Bytes header_lies = good;
  put32(header_lies, 0, 0xffffffffU);
  EXPECT_FALSE(parse_header(std::span<const std::byte>(header_lies).first<kHeaderBytes>(), {}));
}

TEST(StoreWire, UnknownOperationsAndReservedBytesAreRefused) {
  const Bytes good = encode_request(sample(), 1);
  for (const auto& [at, value] :
       {std::pair<std::size_t, int>{4, 21}, {4, 255}, {4, 0}, {5, 1}, {6, 1}, {7, 1}}) {
    Bytes frame = good;
    frame[at] = static_cast<std::byte>(value);
    EXPECT_FALSE(parse(frame)) << at;
  }
}

TEST(StoreWire, WhatDoesNotFitTheOperationIsRefused) {
  const auto is_taken = [](void (*change)(Request&)) {
    Request request = sample();
    change(request);
    return parse(encode_request(request, 1)).ok();
  };
  EXPECT_FALSE(is_taken([](Request& r) { r.values.pop_back(); }));
  EXPECT_FALSE(is_taken([](Request& r) { r.op = Op::get; }));
  EXPECT_FALSE(is_taken([](Request& r) { r.keys[0] = ""; }));
  EXPECT_FALSE(is_taken([](Request& r) { r.keys[0].assign(tutti::Store::kMaxKeyBytes + 1, 'k'); }));
}

TEST(StoreWire, AnAnswerThatIsTooLongBecomesAnError) {
  const Limits limits{.body_bytes = 1000};
  const Response response{.text = "", .values = {std::string(2000, 'x')}};
  EXPECT_EQ(parse_answer(encode_response(response, 3, limits), limits).value().code, Errc::store);
}

TEST(StoreWire, RandomBytesNeverCrash) {
  std::mt19937 random(20240601);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    Bytes frame = encode_request(sample(), 1);
    const auto flips = 1 + random() % 4;
    for (unsigned i = 0; i < flips; ++i)
      frame[random() % frame.size()] = static_cast<std::byte>(random());
    if (parse(frame)) ++accepted;
    frame[4] = std::byte{0};  // as the operation of an answer
    static_cast<void>(parse_answer(frame));
  }
  // Flips inside values leave good requests.
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 20000);
}

/// The head of a store's hello or reply: its first bytes, its refusal or the port that was dialled,
/// and its nonce differ.
std::string head_of(const std::string& frame, const std::string& word, const std::string& nonce) {
  return "74757474697374" + frame + "0400" + "0100" + word + "5c605b3a197c6245" +
         "0900000000000000" + "00000000" + "00000000" + nonce + "676918b86a64fbae";
}

// The key is "key", the nonces are 16 times 0x11 and 0x22. The proofs, the id of the key and the
// hash of the job were computed with another implementation.
TEST(StoreWire, TheHandshakeIsFrozen) {
  const Bytes key = {std::byte{'k'}, std::byte{'e'}, std::byte{'y'}};
  const tutti::secure::Party party =
      store_party({.job = tutti::base::fnv_of("job"), .generation = 9, .secret = key});
  const auto place = tutti::os::Address::parse("10.0.0.3", 0x1234).value();
  tutti::secure::Nonce nonce;
  nonce.fill(std::byte{0x11});
  auto dialler = tutti::secure::Handshake::dialler(party, 0, nonce, place);
  nonce.fill(std::byte{0x22});
  auto acceptor = tutti::secure::Handshake::acceptor(party, nonce, place);
  const auto say = [](tutti::secure::Handshake& from, tutti::secure::Handshake& to) {
    const Bytes bytes(from.outgoing().begin(), from.outgoing().end());
    from.sent(bytes.size());
    to.feed(bytes);
    return tutti::test::hex(bytes);
  };
  EXPECT_EQ(say(dialler, acceptor),
            head_of("01", "34120000", std::string(32, '1')) + "00000000000000000000ffff0a000003");
  EXPECT_EQ(say(acceptor, dialler),
            head_of("02", "00000000", std::string(32, '2')) +
                "02917afd5e0dc5c57ef9af8d5287e30c063674a7f4d34c380f45162bb2754ed4");
  EXPECT_EQ(say(dialler, acceptor),
            "7475747469737403"
            "e94d40de2ecd7d89cc480572055aa90fef0560af7637153c60550b30bf1345df");
}

}  // namespace
