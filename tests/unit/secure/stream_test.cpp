#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "os/address.hpp"
#include "secure/stream.hpp"

namespace tutti::secure {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Bytes = std::vector<std::byte>;

constexpr auto kPatience = 10s;

Digest key_of(unsigned char first) {
  Digest key{};
  key[0] = std::byte{first};
  key[31] = std::byte{7};
  return key;
}

Bytes bytes_of(std::size_t size, std::uint64_t seed = 1) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (std::byte& one : bytes) one = static_cast<std::byte>(random() & 0xff);
  return bytes;
}

/// Two ends of one TCP connection.
struct Pair {
  Stream client;
  Stream server;

  Pair() {
    const os::Fd listener = os::listen_tcp(os::Address::parse("127.0.0.1", 0).value()).value();
    const os::Address where = os::local_address(listener.get()).value();
    client = Stream(os::connect_tcp(where, Clock::now() + kPatience).value());
    server = Stream(os::accept_connection(listener.get()).value());
  }
  Outcome encrypt(const Digest& at_client, const Digest& at_server, Tls::Use use = Tls::Use::busy,
                  std::uint64_t records_per_key = 1 << 20) {
    if (Outcome s = client.encrypt(at_client, {Tls::Role::client, use, records_per_key}); !s)
      return s;
    return server.encrypt(at_server, {Tls::Role::server, use, records_per_key});
  }
  /// Encrypts with one key, and shakes hands. False: it should have worked.
  bool meet(Tls::Use use = Tls::Use::busy, std::uint64_t records_per_key = 1 << 20) {
    if (!encrypt(key_of(1), key_of(1), use, records_per_key).ok()) return false;
    const auto [at_client, at_server] = shake();
    EXPECT_TRUE(at_client.ok()) << at_client.message();
    EXPECT_TRUE(at_server.ok()) << at_server.message();
    return at_client.ok() && at_server.ok();
  }
  /// What each end says in the end: ok where both are proven.
  std::pair<Outcome, Outcome> shake() {
    Outcome at_client;
    std::thread other([&] { at_client = client.shake_until(Clock::now() + kPatience); });
    Outcome at_server = server.shake_until(Clock::now() + kPatience);
    if (!at_server) server.reset();
    other.join();
    return {at_client, at_server};
  }
};

/// Moves all bytes from one end to the other, in one thread, `piece` bytes a write.
Bytes carry(Stream& from, Stream& to, std::span<const std::byte> bytes, std::size_t piece,
            std::size_t window = 100'000) {
  Bytes arrived;
  Bytes buffer(window);
  const std::size_t all = bytes.size();
  const auto deadline = Clock::now() + kPatience;
  while (arrived.size() < all) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "only " << arrived.size() << " of " << all << " bytes arrived";
      break;
    }
    const Moved sent = from.write_some(bytes.first(std::min(piece, bytes.size())));
    EXPECT_EQ(sent.error, 0);
    bytes = bytes.subspan(sent.bytes);
    const Moved got = to.read_some(buffer);
    EXPECT_EQ(got.error, 0) << to.trouble();
    EXPECT_FALSE(got.ended);
    arrived.insert(arrived.end(), buffer.begin(),
                   buffer.begin() + static_cast<std::ptrdiff_t>(got.bytes));
    if (got.error != 0 || got.ended) break;
  }
  return arrived;
}

/// Reads until there is an end or an error, or for too long; what has come is added to `arrived`.
Moved read_to_the_end(Stream& from, Bytes& arrived) {
  Bytes buffer(1000);
  Moved got;
  const auto deadline = Clock::now() + kPatience;
  while (got.error == 0 && !got.ended && Clock::now() < deadline) {
    got = from.read_some(buffer);
    arrived.insert(arrived.end(), buffer.begin(),
                   buffer.begin() + static_cast<std::ptrdiff_t>(got.bytes));
  }
  return got;
}

class EncryptedStream : public testing::TestWithParam<Tls::Use> {};

TEST_P(EncryptedStream, CarriesBytesOfAllSizesBothWays) {
  Pair pair;
  ASSERT_TRUE(pair.meet(GetParam()));
  for (const std::size_t size : {1UL, 63UL, 16383UL, 16384UL, 16385UL, 70'000UL, 3'000'000UL}) {
    const Bytes bytes = bytes_of(size, size);
    EXPECT_TRUE(carry(pair.client, pair.server, bytes, size) == bytes) << size;
    EXPECT_TRUE(carry(pair.server, pair.client, bytes, 777'777) == bytes) << size;
  }
}

TEST_P(EncryptedStream, TakesNewKeysOnTheWay) {
  Pair pair;
  ASSERT_TRUE(pair.meet(GetParam(), 3));
  const Bytes bytes = bytes_of(1'000'000);
  EXPECT_TRUE(carry(pair.client, pair.server, bytes, 200'000) == bytes);
  EXPECT_TRUE(carry(pair.server, pair.client, bytes, 10'000) == bytes);
}

TEST_P(EncryptedStream, SaysThatThereIsMoreThanTheSocketTellsOf) {
  Pair pair;
  ASSERT_TRUE(pair.meet(GetParam()));
  const Bytes bytes = bytes_of(5000);
  ASSERT_TRUE(pair.client.write_all(bytes, Clock::now() + kPatience).ok());
  Bytes head(64);
  ASSERT_TRUE(pair.server.read_all(head, Clock::now() + kPatience).ok());
  pollfd entry{pair.server.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 0), 0) << "the socket itself has more: tests nothing";
  EXPECT_TRUE(pair.server.may_have_unread());
  Bytes rest(10'000);
  EXPECT_EQ(pair.server.read_some(rest).bytes, bytes.size() - head.size());
  EXPECT_FALSE(pair.server.may_have_unread());
}

INSTANTIATE_TEST_SUITE_P(Uses, EncryptedStream, testing::Values(Tls::Use::busy, Tls::Use::quiet));

TEST(Encryption, HidesWhatIsSent) {
  for (const bool encrypted : {false, true}) {
    Pair pair;
    ASSERT_TRUE(!encrypted || pair.meet());
    const Bytes marker = bytes_of(200);
    ASSERT_TRUE(pair.client.write_all(marker, Clock::now() + kPatience).ok());
    Bytes raw(4096);
    pollfd entry{pair.server.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 10'000), 1);
    const ssize_t got = recv(pair.server.fd(), raw.data(), raw.size(), 0);
    ASSERT_GE(got, 200);
    raw.resize(static_cast<std::size_t>(got));
    EXPECT_EQ(std::ranges::search(raw, std::span(marker).first(16)).empty(), encrypted);
  }
}

TEST(Encryption, NeedsTheSameKey) {
  Pair pair;
  ASSERT_TRUE(pair.encrypt(key_of(1), key_of(2)).ok());
  const auto [client, server] = pair.shake();
  EXPECT_EQ(server.code(), Errc::refused) << server.message();
  EXPECT_EQ(client.code(), Errc::refused) << client.message();
  EXPECT_THAT(client.message(), HasSubstr("could not be encrypted (TLS: "));
}

TEST(Encryption, IsRefusedToAPlainPeer) {
  Pair pair;
  ASSERT_TRUE(pair.server.encrypt(key_of(1), {Tls::Role::server}).ok());
  ASSERT_TRUE(pair.client.write_all(bytes_of(500), Clock::now() + kPatience).ok());
  const Outcome status = pair.server.shake_until(Clock::now() + kPatience);
  EXPECT_EQ(status.code(), Errc::refused) << status.message();
}

TEST(Encryption, DoesNotWaitLongerThanItIsToldTo) {
  Pair pair;
  ASSERT_TRUE(pair.server.encrypt(key_of(1), {Tls::Role::server}).ok());
  const Outcome silent = pair.server.shake_until(Clock::now() + 50ms);
  EXPECT_EQ(silent.code(), Errc::timeout) << silent.message();
  pair.client.reset();
  const Outcome gone = pair.server.shake_until(Clock::now() + kPatience);
  EXPECT_EQ(gone.code(), Errc::peer_lost) << gone.message();
}

TEST(Encryption, SeesThatBytesWereChangedOnTheWay) {
  Pair pair;
  ASSERT_TRUE(pair.meet());
  const Bytes good = bytes_of(100);
  ASSERT_TRUE(pair.client.write_all(good, Clock::now() + kPatience).ok());
  // A record of the right form that nobody with the key has made.
  Bytes forged = bytes_of(5 + 100);
  std::ranges::copy(std::as_bytes(std::span("\x17\x03\x03\0\x64", 5)), forged.begin());
  ASSERT_EQ(::send(pair.client.fd(), forged.data(), forged.size(), MSG_NOSIGNAL), 105);
  Bytes arrived;
  EXPECT_EQ(read_to_the_end(pair.server, arrived).error, EBADMSG);
  EXPECT_TRUE(arrived == good) << "what came before counts";
  EXPECT_THAT(pair.server.trouble(), HasSubstr("bad record mac"));
  EXPECT_EQ(pair.server.write_some(good).bytes, 0U);
}

TEST(Encryption, EndsWithoutAFarewellAsAPlainConnectionDoes) {
  for (const bool encrypted : {false, true}) {
    Pair pair;
    ASSERT_TRUE(!encrypted || pair.meet());
    const Bytes last = bytes_of(300);
    ASSERT_TRUE(pair.client.write_all(last, Clock::now() + kPatience).ok());
    pair.client.reset();
    Bytes arrived;
    const Moved got = read_to_the_end(pair.server, arrived);
    EXPECT_TRUE(got.ended) << got.error;
    EXPECT_TRUE(arrived == last) << "what came before the end counts";
    // Nobody is there: an error and no signal.
    int error = 0;
    const auto deadline = Clock::now() + kPatience;
    while (error == 0 && Clock::now() < deadline) error = pair.server.write_some(last).error;
    EXPECT_NE(error, 0);
  }
}

TEST(Encryption, KeepsLittleForAPeerThatDoesNotRead) {
  Pair pair;
  ASSERT_TRUE(pair.meet());
  const Bytes bytes = bytes_of(1'000'000);
  std::size_t taken = 0;
  std::size_t last = 1;
  while (last > 0 && taken < 1'000'000'000) taken += last = pair.client.write_some(bytes).bytes;
  ASSERT_EQ(last, 0U);
  EXPECT_GT(pair.client.unsent(), 0U);
  EXPECT_LT(pair.client.unsent(), 100'000U);
  Bytes buffer(1'000'000);
  std::size_t arrived = 0;
  const auto deadline = Clock::now() + kPatience;
  while (arrived < taken && Clock::now() < deadline) {
    pair.client.write({});
    arrived += pair.server.read_some(buffer).bytes;
  }
  EXPECT_EQ(arrived, taken);
  EXPECT_EQ(pair.client.unsent(), 0U);
}

TEST(Encryption, NeedsASecret) {
  EXPECT_EQ(check_can_encrypt({}).code(), Errc::invalid_argument);
  EXPECT_THAT(check_can_encrypt({}).message(), HasSubstr("TUTTI_SECRET_FILE"));
  EXPECT_TRUE(check_can_encrypt(key_of(1)).ok());
}

}  // namespace
}  // namespace tutti::secure
