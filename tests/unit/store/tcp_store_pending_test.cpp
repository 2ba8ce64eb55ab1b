// Peers of a TCP store that have not proven themselves, belong to another job, or talk nonsense.

#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <future>
#include <random>
#include <span>
#include <thread>

#include "served.hpp"
#include "support/relay.hpp"
#include "unit/group/error_text.hpp"

using namespace std::chrono_literals;
using testing::HasSubstr;
using tutti::Errc;
using tutti::TcpStore;
using namespace tutti::store;

namespace os = tutti::os;

namespace {

const tutti::JobIdentity kWithSecret = {.job = kUnnamedJob,
                                        .secret = std::vector<std::byte>(32, std::byte{5})};

/// A server with places for eight that have not proven themselves.
std::unique_ptr<TcpServer> serve_eight(std::chrono::milliseconds timeout_when_full) {
  return serve({.address = loopback(),
                .identity = kWithSecret,
                .hello_timeout = 10min,
                .timeout_when_full = timeout_when_full,
                .max_pending = 8});
}

std::shared_ptr<TcpStore> join_closed(const TcpServer& server) {
  return join(server.address().port(), kWithSecret.secret);
}

TEST(TcpStore, PendingConnectionsDisturbNobody) {
  auto server = serve({.address = loopback(), .identity = kWithSecret, .hello_timeout = 300ms});
  auto store = join_closed(*server);
  std::mt19937 random(7);
  std::vector<os::Fd> pending;
  // Half-open, silent.
  for (int i = 0; i < 20; ++i) pending.push_back(dial(*server));
  // Random bytes, huge lengths, half a hello, HTTP.
  for (int i = 0; i < 60; ++i) {
    os::Fd fd = dial(*server);
    std::vector<std::byte> bytes(1 + random() % 500);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (i % 4 == 1) std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
    if (i % 4 == 2) {
      const tutti::secure::Handshake handshake = dialler(fd);
      const auto hello = handshake.outgoing();
      bytes.assign(hello.begin(), hello.begin() + 1 + random() % 63);
    }
    if (i % 4 == 3) {
      const auto http = std::as_bytes(std::span("GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
      bytes.assign(http.begin(), http.end() - 1);
    }
    // The server may have hung up already.
    static_cast<void>(os::send_all(fd.get(), bytes, Clock::now() + 5s));
    pending.push_back(std::move(fd));
    EXPECT_EQ(store->add("work", 1), i + 1) << "the job goes on";
  }
  for (const os::Fd& connection : pending) EXPECT_TRUE(hung_up(connection, 5s));
  EXPECT_EQ(store->add("work", 0), 60);
}

TEST(TcpStore, ARelayIsRefusedByName) {
  auto server = serve({.address = loopback(), .identity = kWithSecret});
  tutti::test::Relay relay(loopback(), server->address());
  EXPECT_THAT(
      tutti::test::text_of<tutti::NetworkError>(
          [&] { join(relay.address().port(), kWithSecret.secret); }),
      HasSubstr(relay.address().to_string() + " was dialled, and the connection has arrived at " +
                server->address().to_string()));
  join_closed(*server)->set("still", "served");
}

// Where a name has several addresses, and another user serves at the first one.
TEST(TcpStore, ARelayAtOneAddressDoesNotHideTheServerAtAnother) {
  auto server = serve({.address = loopback(), .identity = kWithSecret});
  const std::uint16_t port = server->address().port();
  const auto another = os::Address::parse("127.0.0.2", port).value();
  tutti::test::Relay relay(another, server->address());
  const auto both = [&](const std::string&, std::uint16_t) {
    return tutti::Result<std::vector<os::Address>>(
        std::vector<os::Address>{another, server->address()});
  };
  const TcpClient::Target target{"a-name", port, 10s, both};
  const auto mine = store_party(kWithSecret);
  EXPECT_TRUE(TcpClient::probe(target, mine, Clock::now() + 10s));
  const auto client = TcpClient::connect(target, mine, Clock::now() + 10s);
  ASSERT_TRUE(client) << client.status().message();
  EXPECT_EQ(client.value()->ends().servers, server->address());
  EXPECT_EQ(relay.connections(), 2) << "it was dialled first";
}

TEST(TcpStore, ASilentAddressDoesNotHideTheServerAtAnother) {
  auto server = serve();
  const std::uint16_t port = server->address().port();
  const auto silent = os::Address::parse("127.0.0.2", port).value();
  const auto listener = os::listen_tcp(silent);
  ASSERT_TRUE(listener) << listener.status().message();
  const auto both = [&](const std::string&, std::uint16_t) {
    return tutti::Result<std::vector<os::Address>>(
        std::vector<os::Address>{silent, server->address()});
  };
  const auto deadline = Clock::now() + 1s;
  EXPECT_TRUE(TcpClient::probe({"a-name", port, 10s, both}, store_party(), deadline));
}

TEST(TcpStore, AWrongProofIsHungUpOn) {
  auto server = serve({.address = loopback(), .identity = kWithSecret});
  auto [fd, handshake] = dial_unproven(*server, store_party(kWithSecret));
  std::vector<std::byte> proof(handshake.outgoing().begin(), handshake.outgoing().end());
  ASSERT_EQ(proof.size(), tutti::secure::kProofBytes);
  proof.back() ^= std::byte{1};
  handshake.sent(proof.size());
  ASSERT_TRUE(os::send_all(fd.get(), proof, Clock::now() + 5s));
  ASSERT_TRUE(talk(fd, handshake));
  EXPECT_EQ(handshake.failure().code(), Errc::refused);
  EXPECT_THAT(handshake.failure().message(), HasSubstr("another secret"));
  EXPECT_TRUE(hung_up(fd, 5s));
}

TEST(TcpStore, PendingConnectionsKeepTheirPlacesAndTheRestWaits) {
  auto server = serve_eight(10min);
  std::vector<os::Fd> pending;
  for (int i = 0; i < 40; ++i) pending.push_back(dial(*server));
  auto store = std::async(std::launch::async, [&] { return join_closed(*server); });
  for (const os::Fd& connection : pending) EXPECT_FALSE(hung_up(connection, 1ms));
  // The user comes in behind those who give their places up.
  for (os::Fd& connection : pending) connection.reset();
  store.get()->set("still", "served");
}

TEST(TcpStore, StrangersWithoutAProofGoSoonWhenAllPlacesAreTaken) {
  for (const bool hello : {false, true}) {
    auto server = serve_eight(50ms);
    std::vector<os::Fd> strangers;
    for (int i = 0; i < 40; ++i) {
      strangers.push_back(dial(*server));
      if (!hello) continue;
      // That it cannot follow by a proof, as a stranger who has heard one.
      tutti::secure::Handshake handshake = dialler(strangers.back(), store_party(kWithSecret));
      (void)say(strangers.back(), handshake);
    }
    join_closed(*server)->set("behind", "them");
    EXPECT_GE(std::ranges::count_if(strangers, [](auto& one) { return hung_up(one, 1ms); }),
              40 - 8);
  }
}

TEST(TcpStore, StrangersKeepTheirPlacesWhileThereAreOthers) {
  auto server = serve_eight(1ms);
  std::vector<os::Fd> strangers;
  for (int i = 0; i < 6; ++i) strangers.push_back(dial(*server));
  join_closed(*server)->set("beside", "them");  // one place is left, however long its proof takes
  for (const os::Fd& stranger : strangers) EXPECT_FALSE(hung_up(stranger, 10ms));
}

TEST_F(ServedTcpStore, GarbageFromAProvenUserEndsOnlyHim) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; ++i) {
    os::Fd fd = dial_and_prove(*server);
    std::vector<std::byte> bytes(kHeaderBytes + random() % 300);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (i % 2 == 0) {
      // A header that is fine but for the length it announces.
      bytes = encode_request(get("k", 0), 1);
      bytes[3] = std::byte{0x7f};
    } else {
      bytes[5] = std::byte{1};  // reserved
    }
    static_cast<void>(os::send_all(fd.get(), bytes, Clock::now() + 5s));
    EXPECT_TRUE(hung_up(fd, 5s)) << i;
    EXPECT_EQ(store->add("work", 1), i + 1);
  }
}

TEST(TcpStore, ALaterGenerationWaitsForItsServer) {
  auto first =
      tutti::make_tcp_store({.serve = true, .linger = 0ms, .timeout = 10s, .generation = 1});
  const std::uint16_t port = first->port();
  auto second_user = std::async(std::launch::async, [&] {
    return tutti::make_tcp_store({.port = port, .timeout = 10s, .generation = 2});
  });
  first->set("of", "the first");
  first.reset();
  auto second =
      tutti::make_tcp_store({.port = port, .serve = true, .timeout = 10s, .generation = 2});
  EXPECT_FALSE(second_user.get()->check("of"));
  EXPECT_THROW(tutti::make_tcp_store({.port = port, .timeout = 10s, .generation = 1}),
               tutti::NetworkError);
}

TEST(TcpStore, AnotherJobIsRefused) {
  auto store = tutti::make_tcp_store({.serve = true, .timeout = 5s, .job = "mine"});
  EXPECT_THAT(tutti::test::text_of<tutti::NetworkError>([&] {
                tutti::make_tcp_store({.port = store->port(), .timeout = 5s, .job = "yours"});
              }),
              HasSubstr("another job"));
}

// A server that has our proof knows us, and our will: hanging up and calling again would carry it
// out for a healthy rank.
TEST(SlowTcpServer, IsWaitedForOnceItHasTheProof) {
  const os::Fd listener = os::listen_tcp(loopback()).value();
  const std::jthread server([&] {
    ASSERT_TRUE(os::wait_ready(listener.get(), POLLIN, Clock::now() + 15s).value());
    const os::Fd user = os::accept_connection(listener.get()).value();
    tutti::secure::Handshake handshake = acceptor(user);
    ASSERT_TRUE(talk(user, handshake));
    handshake.conclude(tutti::secure::Refusal::none);
    EXPECT_FALSE(hung_up(user, 1500ms)) << "longer than a hello may take";
    (void)say(user, handshake);
  });
  const std::uint16_t port = os::local_address(listener.get())->port();
  auto client =
      TcpClient::connect({"127.0.0.1", port, 1000ms, {}}, store_party(), Clock::now() + 12s);
  EXPECT_TRUE(client) << client.status().message();
}

}  // namespace
