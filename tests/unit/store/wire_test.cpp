#include "store/wire.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "os/host.hpp"
#include "store/handshake.hpp"

using namespace tutti::store;
using testing::HasSubstr;
using tutti::Errc;

namespace {

using Bytes = std::vector<std::byte>;

tutti::Result<Request> parse(std::span<const std::byte> frame, const Limits& limits = {}) {
  if (frame.size() < kHeaderBytes) return tutti::Status(Errc::store, "short");
  auto header = parse_header(frame.first<kHeaderBytes>(), limits);
  if (!header) return header.status();
  return parse_request(*header, frame.subspan(kHeaderBytes), limits);
}

Request sample() {
  Request request;
  request.op = Op::multi_set;
  request.timeout_ms = 1234567;
  request.amount = -42;
  request.keys = {"alpha", std::string("\0b", 2)};
  request.values = {"", std::string(300, 'x')};
  return request;
}

void put32(Bytes& frame, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) frame[at + i] = static_cast<std::byte>(value >> (8 * i));
}

TEST(StoreWire, RequestsComeBackAsTheyWere) {
  const Request request = sample();
  const Bytes frame = encode_request(request, 0x0123456789abcdef);
  auto header = parse_header(std::span<const std::byte>(frame).first<kHeaderBytes>(), {});
  ASSERT_TRUE(header);
  EXPECT_EQ(header->id, 0x0123456789abcdefU);
  EXPECT_EQ(header->op, static_cast<std::uint8_t>(Op::multi_set));
  auto parsed = parse(frame);
  ASSERT_TRUE(parsed) << parsed.status().message();
  EXPECT_EQ(parsed->timeout_ms, request.timeout_ms);
  EXPECT_EQ(parsed->amount, request.amount);
  EXPECT_EQ(parsed->keys, request.keys);
  EXPECT_EQ(parsed->values, request.values);
}

TEST(StoreWire, ResponsesComeBackAsTheyWere) {
  Response response;
  response.code = Errc::timeout;
  response.text = "why";
  response.number = INT64_MIN;
  response.values = {"a", "", std::string(1000, 'z')};
  const Bytes frame = encode_response(response, 7, {});
  auto header = parse_header(std::span<const std::byte>(frame).first<kHeaderBytes>(), {});
  ASSERT_TRUE(header);
  auto parsed =
      parse_response(*header, std::span<const std::byte>(frame).subspan(kHeaderBytes), {});
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->code, response.code);
  EXPECT_EQ(parsed->text, response.text);
  EXPECT_EQ(parsed->number, response.number);
  EXPECT_EQ(parsed->values, response.values);
}

// The layout of docs/wire-store.md, byte by byte: a change here is another version.
TEST(StoreWire, TheLayoutIsFrozen) {
  Request request;
  request.op = Op::compare_set;
  request.timeout_ms = 0x01020304;
  request.amount = 1;
  request.keys = {"k"};
  request.values = {"", "vw"};
  const unsigned char expected[] = {
      35,   0,    0,    0,    6,   0,  0, 0, 9, 0, 0, 0, 0, 0, 0, 0,  // header
      0x04, 0x03, 0x02, 0x01, 1,   0,  0, 0, 2, 0, 0, 0,              // timeout, keys, values
      1,    0,    0,    0,    0,   0,  0, 0,                          // amount
      1,    0,    0,    0,    'k',                                    // key
      0,    0,    0,    0,                                            // value 0
      2,    0,    0,    0,    'v', 'w'};                              // value 1
  const Bytes frame = encode_request(request, 9);
  ASSERT_EQ(frame.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(frame.data(), expected, sizeof expected), 0);
}

TEST(StoreWire, TheLayoutOfAWillIsFrozen) {
  EXPECT_EQ(kStoreVersion, 3);
  Request request;
  request.op = Op::set_will;
  request.keys = {"k"};
  request.values = {"v"};
  const unsigned char expected[] = {30, 0, 0, 0, 18, 0, 0, 0, 3, 0, 0, 0, 0,   0, 0, 0,  // header
                                    0,  0, 0, 0, 1,  0, 0, 0, 1, 0, 0, 0,                // counts
                                    0,  0, 0, 0, 0,  0, 0, 0, 1, 0, 0, 0, 'k',           // key
                                    1,  0, 0, 0, 'v'};
  Bytes frame = encode_request(request, 3);
  ASSERT_EQ(frame.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(frame.data(), expected, sizeof expected), 0);
  EXPECT_TRUE(parse(frame));
  request.op = Op::drop_will;
  EXPECT_FALSE(parse(encode_request(request, 3))) << "a value too many";
  request.values.clear();
  frame = encode_request(request, 3);
  EXPECT_EQ(frame[4], std::byte{19});
  EXPECT_TRUE(parse(frame));
  request.op = Op::enroll;
  request.keys = {"counter", "before", "behind"};
  request.values = {"v"};
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
  const std::size_t keys_at = kHeaderBytes + 4;
  const std::size_t values_at = kHeaderBytes + 8;
  const std::size_t first_key_at = kHeaderBytes + 20;
  for (const std::size_t at : {keys_at, values_at, first_key_at}) {
    for (const std::uint32_t lie : {0xffffffffU, 0x7fffffffU, 0x10000U, 400U}) {
      Bytes frame = good;
      put32(frame, at, lie);
      EXPECT_FALSE(parse(frame)) << "at " << at << " " << lie;
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
  Request request = sample();
  request.values.pop_back();
  EXPECT_FALSE(parse(encode_request(request, 1)));
  request = sample();
  request.op = Op::get;
  EXPECT_FALSE(parse(encode_request(request, 1)));
  request = sample();
  request.keys[0] = "";
  EXPECT_FALSE(parse(encode_request(request, 1)));
  request.keys[0] = std::string(tutti::Store::kMaxKeyBytes + 1, 'k');
  EXPECT_FALSE(parse(encode_request(request, 1)));
}

TEST(StoreWire, AnAnswerThatIsTooLongBecomesAnError) {
  Limits limits;
  limits.body_bytes = 1000;
  Response response;
  response.values.emplace_back(2000, 'x');
  const Bytes frame = encode_response(response, 3, limits);
  auto header = parse_header(std::span<const std::byte>(frame).first<kHeaderBytes>(), limits);
  ASSERT_TRUE(header);
  auto parsed =
      parse_response(*header, std::span<const std::byte>(frame).subspan(kHeaderBytes), limits);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->code, Errc::store);
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
    auto header = parse_header(std::span<const std::byte>(frame).first<kHeaderBytes>(), {});
    if (header) {
      header->op = 0;
      static_cast<void>(
          parse_response(*header, std::span<const std::byte>(frame).subspan(kHeaderBytes), {}));
    }
  }
  // Flips inside values leave good requests.
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 20000);
}

const Bytes kJobSecret(32, std::byte{1});
const Bytes kAnotherSecret(32, std::byte{2});

TEST(StoreHandshake, BothSidesProveTheSecret) {
  const Credentials mine{kJobSecret, "job", 0};
  auto hello = make_hello(mine);
  ASSERT_TRUE(hello);
  EXPECT_TRUE(may_be_hello(*hello));
  auto answer = answer_hello(*hello, mine);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->refusal, Refusal::none);
  EXPECT_TRUE(check_reply(*hello, answer->reply, mine));
  auto proof = make_client_proof(*hello, answer->reply, mine);
  ASSERT_TRUE(proof);
  EXPECT_TRUE(check_client_proof(*hello, answer->reply, *proof, mine).value());
  // What the server signed is no proof of the client.
  Proof reflected;
  std::copy(answer->reply.begin() + 48, answer->reply.end(), reflected.begin());
  EXPECT_FALSE(check_client_proof(*hello, answer->reply, reflected, mine).value());
  EXPECT_FALSE(check_client_proof(*hello, answer->reply, Proof{}, mine).value());
}

TEST(StoreHandshake, AProofOfYesterdayIsWorthNothing) {
  const Credentials mine{kJobSecret, "job", 0};
  auto hello = make_hello(mine);
  auto first = answer_hello(*hello, mine);
  auto proof = make_client_proof(*hello, first->reply, mine);
  auto second = answer_hello(*hello, mine);
  EXPECT_FALSE(check_client_proof(*hello, second->reply, *proof, mine).value());
}

TEST(StoreHandshake, EveryFlippedBitIsNoticed) {
  const Credentials mine{kJobSecret, "job", 0};
  auto hello = make_hello(mine);
  auto answer = answer_hello(*hello, mine);
  for (std::size_t i = 0; i < kReplyBytes; ++i) {
    Reply changed = answer->reply;
    changed[i] ^= std::byte{0x10};
    EXPECT_FALSE(check_reply(*hello, changed, mine)) << i;
  }
}

TEST(StoreHandshake, WhoDoesNotBelongIsToldWhy) {
  const Credentials server{kJobSecret, "job", 2};
  const auto refusal = [&](const Credentials& client, const Credentials& to) {
    auto hello = make_hello(client);
    return answer_hello(*hello, to)->refusal;
  };
  EXPECT_EQ(refusal({{}, "job", 2}, server), Refusal::secret_needed);
  EXPECT_EQ(refusal({kJobSecret, "job", 2}, {{}, "job", 2}), Refusal::no_secret);
  EXPECT_EQ(refusal({kJobSecret, "other", 2}, server), Refusal::other_job);
  EXPECT_EQ(refusal({kJobSecret, "job", 3}, server), Refusal::earlier_generation);
  EXPECT_EQ(refusal({kJobSecret, "job", 1}, server), Refusal::later_generation);
  EXPECT_EQ(refusal({kJobSecret, "job", 5}, {kJobSecret, "job", 0}), Refusal::none);
  EXPECT_EQ(refusal({kJobSecret, "job", 2}, {kJobSecret, "job", 2, true}),
            Refusal::encryption_needed);
  EXPECT_EQ(refusal({kJobSecret, "job", 2, true}, server), Refusal::no_encryption);
  EXPECT_EQ(refusal({kJobSecret, "job", 2, true}, {kJobSecret, "job", 2, true}), Refusal::none);
  EXPECT_EQ(refusal({kAnotherSecret, "job", 2}, server), Refusal::other_key);
  // A server that does not know the secret cannot pretend, not even to need none.
  const Credentials mine{kJobSecret, "job", 0};
  auto hello = make_hello(mine);
  auto theirs = make_hello({kAnotherSecret, "job", 0});
  auto foreign = answer_hello(*theirs, {kAnotherSecret, "job", 0});
  ASSERT_EQ(foreign->refusal, Refusal::none);
  EXPECT_EQ(check_reply(*hello, foreign->reply, mine).code(), Errc::refused);
  Reply none = foreign->reply;
  std::fill(none.begin() + 48, none.end(), std::byte{0});
  EXPECT_EQ(check_reply(*hello, none, mine).code(), Errc::refused);
}

TEST(StoreHandshake, BothKeysAreNamedWhereTheyDiffer) {
  const Credentials client{kJobSecret, "job", 0, false, "/one/key"};
  const Credentials server{kAnotherSecret, "job", 0, false, "/two/key"};
  const auto hello = make_hello(client);
  const auto answer = answer_hello(hello.value(), server);
  ASSERT_TRUE(tells_origin(answer.value().reply));
  const tutti::Status told = describe_other_key(make_origin(server), client);
  EXPECT_EQ(told.code(), Errc::refused);
  EXPECT_THAT(std::string(told.message()),
              testing::AllOf(HasSubstr("/one/key"), HasSubstr("/two/key"),
                             HasSubstr(tutti::os::host_name()), HasSubstr("copy the file"),
                             HasSubstr("--secret-file"), HasSubstr("TUTTI_INSECURE=1")));
  // Whoever plays a server tells what it likes, but not to a terminal.
  Origin wild{};
  wild.fill(std::byte{0x1b});
  EXPECT_THAT(std::string(describe_other_key(wild, client).message()),
              testing::Not(HasSubstr("\x1b")));
}

TEST(StoreHandshake, AGenerationWithoutOrderIsWaitedFor) {
  const auto answer_to = [](std::uint32_t mine, std::uint32_t served) {
    const Credentials client{kJobSecret, "job", mine};
    auto hello = make_hello(client);
    auto answer = answer_hello(*hello, {kJobSecret, "job", served});
    return check_reply(*hello, answer->reply, client).code();
  };
  const std::uint32_t some = kUnorderedGeneration + 5;
  EXPECT_EQ(answer_to(some, 2), Errc::peer_left);
  EXPECT_EQ(answer_to(some, some + 1), Errc::peer_left);
  EXPECT_EQ(answer_to(some, some - 1), Errc::peer_left);
  EXPECT_EQ(answer_to(some, some), Errc::ok);
  EXPECT_EQ(answer_to(2, some), Errc::peer_left);
  EXPECT_EQ(answer_to(1, 2), Errc::refused) << "who is late is told so";
}

TEST(StoreHandshake, EncryptionHasItsBitAndItsKey) {
  const Credentials mine{kJobSecret, "job", 0, true};
  auto hello = make_hello(mine);
  EXPECT_EQ((*hello)[10], std::byte{3});
  auto answer = answer_hello(*hello, mine);
  EXPECT_EQ(answer->reply[10], std::byte{3});
  const auto at_client = key_of_encryption(*hello, answer->reply, mine);
  EXPECT_EQ(at_client.value(), key_of_encryption(*hello, answer->reply, mine).value());
  EXPECT_NE(at_client.value(), make_client_proof(*hello, answer->reply, mine).value());
  // Nobody on the way can take it from both: what the server has signed is what it has said.
  Reply plain = answer->reply;
  plain[10] = std::byte{1};
  EXPECT_EQ(check_reply(*hello, plain, mine).code(), Errc::refused);
  EXPECT_EQ(check_reply(*hello, plain, {kJobSecret, "job", 0}).code(), Errc::refused);
}

TEST(StoreHandshake, AnotherVersionIsRefused) {
  const Credentials mine{{}, "", 0};
  auto hello = make_hello(mine);
  (*hello)[8] = std::byte{99};
  EXPECT_EQ(answer_hello(*hello, mine)->refusal, Refusal::version);
}

}  // namespace
