// Where connections are encrypted, only ranks of the job may talk to us; others can do nothing.

#include "contract/transport/raw_client.hpp"
#include "contract/transport/tcp_fixture.hpp"

namespace tutti::transport::test {
namespace {

using namespace std::chrono_literals;

TcpOptions patient_for(std::chrono::milliseconds time) {
  TcpOptions options = encrypted_options(0, 2);
  options.handshake_timeout = time;
  return options;
}

/// Rank 1 of two, played by hand: it proves that it knows the secret, and TLS does not begin.
struct HalfOpen {
  std::vector<std::byte> secret = secret_of("a secret for tests");
  secure::Handshake handshake;
  RawClient client;

  explicit HalfOpen(TcpTransport& acceptor)
      : handshake(secure::Handshake::dialler({1, 2, 0x1234, 1, secret, /*encrypts=*/true}, 0,
                                             secure::Nonce{}, place_of(acceptor))),
        client(acceptor.address()) {
    (void)until([&] { return proven(); },
                [&] {
                  client.shake(handshake);
                  acceptor.poll();
                });
  }
  [[nodiscard]] bool proven() const {
    return handshake.wants_encryption() && handshake.outgoing().empty();
  }
};

/// The real rank 1 gets in and its frames arrive.
void expect_welcome(LoneRank& rank) {
  LoneRank other(encrypted_options(1, 2));
  ASSERT_TRUE(other.transport->set_addresses({rank.transport->address(), ""}).ok());
  const auto payload = payload_of(7, 50'000);
  other.transport->send(0, head_of(7, payload.size()), payload.data(), 1);
  ASSERT_TRUE(rank.until([&] {
    other.transport->poll();
    return rank.sink.received(1) == 1;
  }));
  EXPECT_TRUE(rank.sink.peers[1].frames[0].payload == payload);
  EXPECT_FALSE(rank.sink.lost(1));
}

TEST(TlsPending, AreDroppedWhenTlsDoesNotBeginInTime) {
  LoneRank rank(patient_for(1s));
  HalfOpen silent(*rank.transport);
  ASSERT_TRUE(silent.proven());
  EXPECT_FALSE(rank.transport->connected(1)) << "not before TLS stands";
  ASSERT_TRUE(rank.until([&] { return rank.transport->counters().dropped == 1; }));
  ASSERT_TRUE(rank.until([&] { return silent.client.closed(); }));
  expect_welcome(rank);
}

TEST(TlsPending, AreDroppedWhenTheySpeakSomethingElse) {
  LoneRank rank(patient_for(60s));
  std::deque<HalfOpen> clients;
  const FrameHeader head = head_of(1, 0);
  const std::span<const std::byte> frame(reinterpret_cast<const std::byte*>(&head), sizeof head);
  clients.emplace_back(*rank.transport).client.say(payload_of(3, 5000));  // garbage
  clients.emplace_back(*rank.transport).client.say("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  clients.emplace_back(*rank.transport).client.say(frame);  // as without encryption
  clients.emplace_back(*rank.transport).client.hang_up();
  ASSERT_TRUE(rank.until([&] { return rank.transport->counters().dropped == 4; }));
  EXPECT_EQ(rank.sink.peers[1].heads, 0);
  expect_welcome(rank);
}

TEST(TlsPending, MayBeManyAtOnceAndTheRightOneStillGetsIn) {
  LoneRank rank(patient_for(60s));
  std::deque<HalfOpen> clients;
  for (int i = 0; i < 150; ++i) ASSERT_TRUE(clients.emplace_back(*rank.transport).proven()) << i;
  EXPECT_EQ(rank.transport->counters().dropped, 0U) << "none has to go for another";
  expect_welcome(rank);
}

TEST(TlsMismatch, IsNamedByWhoDials) {
  expect_error(
      dial(plain_options(1, 2), encrypted_options(0, 2)), Errc::refused,
      "it encrypts its connections and this process does not; give all processes (tuttirun "
      "included) the same TUTTI_TLS");
  const Outcome encrypted = dial(encrypted_options(1, 2), plain_options(0, 2));
  expect_error(encrypted, Errc::refused,
               "it does not encrypt its connections, but this process does");
  EXPECT_EQ(encrypted.culprit(), 0);
}

TEST(TlsMismatch, OfSecretsIsNamedAsWithoutTls) {
  TcpOptions other = encrypted_options(1, 2);
  other.identity.secret = secret_of("another secret, for tests");
  expect_error(dial(other, encrypted_options(0, 2)), Errc::refused, "it has another secret");
}

TEST(TlsMismatch, IsNoneWhereBothEncrypt) {
  EXPECT_TRUE(dial(encrypted_options(1, 2), encrypted_options(0, 2)).ok());
}

TEST(TlsOptions, NeedASecret) {
  TcpOptions options = encrypted_options(0, 2);
  options.identity.secret = {};
  expect_error(TcpTransport::listen(options).status(), Errc::invalid_argument, "no secret");
}

}  // namespace
}  // namespace tutti::transport::test
