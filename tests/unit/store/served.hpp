#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tutti/store.hpp>
#include "os/socket.hpp"
#include "requests.hpp"
#include "store/credentials.hpp"
#include "store/tcp_client.hpp"
#include "store/tcp_server.hpp"
#include "store/tcp_store.hpp"
#include "store/wire.hpp"

// A server on loopback, and those who come to it without being a store's users.
namespace tutti::store {

using Clock = std::chrono::steady_clock;

inline os::Address loopback(std::uint16_t port = 0) {
  return os::Address::parse("127.0.0.1", port).value();
}

/// On a port of the system's choice.
inline std::unique_ptr<TcpServer> serve(TcpServerOptions options = {}) {
  options.address = loopback();
  auto server = TcpServer::start(std::move(options));
  EXPECT_TRUE(server) << server.status().message();
  return std::move(server).value();
}

inline os::Fd dial(const TcpServer& server) {
  auto fd = os::connect_tcp(server.address(), Clock::now() + std::chrono::seconds(5));
  EXPECT_TRUE(fd) << fd.status().message();
  return std::move(fd).value();
}

/// Whether the other side hangs up within the time.
inline bool hung_up(const os::Fd& fd, Clock::duration within) {
  std::array<std::byte, 4096> buffer;
  const auto deadline = Clock::now() + within;
  while (true) {
    auto got = os::receive_some(fd.get(), buffer);
    if (!got || !got->has_value()) return true;
    if (**got > 0) continue;
    auto ready = os::wait_ready(fd.get(), POLLIN, deadline);
    if (!ready || !*ready) return false;
  }
}

/// A user of the store at that port; without a secret unless one is given.
inline std::shared_ptr<TcpStore> join(std::uint16_t port, SecretBytes secret = {}) {
  return join_tcp_store({.port = port, .timeout = std::chrono::seconds(10)},
                        {std::move(secret), std::string(kGivenSecret)})
      .store;
}

/// A user of a store that a process of this user serves at that port.
inline std::shared_ptr<TcpStore> join_own(std::uint16_t port) {
  return tutti::make_tcp_store({.port = port, .timeout = std::chrono::seconds(10)});
}

/// The handshake of a user of a store over this connection.
inline secure::Handshake dialler(const os::Fd& fd, const secure::Party& mine = store_party()) {
  secure::Nonce nonce;
  nonce.fill(std::byte{1});
  return secure::Handshake::dialler(mine, 0, nonce, os::peer_address(fd.get()).value());
}
inline secure::Handshake acceptor(const os::Fd& fd, const secure::Party& mine = store_party()) {
  secure::Nonce nonce;
  nonce.fill(std::byte{2});
  return secure::Handshake::acceptor(mine, nonce, os::local_address(fd.get()).value());
}

/// Says what there is to say.
inline bool say(const os::Fd& fd, secure::Handshake& handshake) {
  const auto words = handshake.outgoing();
  const bool said = os::send_all(fd.get(), words, Clock::now() + std::chrono::seconds(5)).ok();
  handshake.sent(words.size());
  return said;
}

/// One side of a handshake, as far as it gets without encryption.
inline bool talk(const os::Fd& fd, secure::Handshake& handshake) {
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  std::array<std::byte, secure::kLongestFrame> buffer{};
  do {
    if (!say(fd, handshake)) return false;
    while (handshake.wanted() > 0 && handshake.outgoing().empty()) {
      const auto bytes = std::span(buffer).first(handshake.wanted());
      if (!os::receive_all(fd.get(), bytes, deadline)) return false;
      handshake.feed(bytes);
    }
  } while (!handshake.outgoing().empty() && !handshake.wants_encryption());
  return true;
}

/// A connection, and the handshake of a user over it whose proof is still to be sent.
inline std::pair<os::Fd, secure::Handshake> dial_unproven(
    const TcpServer& server, const secure::Party& mine = store_party()) {
  os::Fd fd = dial(server);
  secure::Handshake handshake = dialler(fd, mine);
  EXPECT_TRUE(say(fd, handshake));
  std::array<std::byte, secure::kReplyBytes> reply{};
  EXPECT_TRUE(os::receive_all(fd.get(), reply, Clock::now() + std::chrono::seconds(5)));
  handshake.feed(reply);
  return {std::move(fd), std::move(handshake)};
}

/// The connection of a user that has proven itself and may send requests.
inline os::Fd dial_and_prove(const TcpServer& server) {
  os::Fd fd = dial(server);
  secure::Handshake handshake = dialler(fd);
  EXPECT_TRUE(talk(fd, handshake));
  EXPECT_EQ(handshake.state(), secure::Handshake::State::accepted);
  return fd;
}

/// A server, and a user of its store.
class Served : public testing::Test {
 protected:
  [[nodiscard]] std::uint16_t port() const { return server->address().port(); }
  std::unique_ptr<TcpServer> server = serve();
  std::shared_ptr<TcpStore> store = join(port());
};
using ServedTcpClient = Served;
using ServedTcpServer = Served;
using ServedTcpStore = Served;

/// Sends a request whole, as who has proven itself may.
inline void post(const os::Fd& fd, const Request& request, std::uint64_t id = 1) {
  const auto frame = encode_request(request, id);
  EXPECT_TRUE(os::send_all(fd.get(), frame, Clock::now() + std::chrono::seconds(10)));
}
/// The answer to that request, which is the next that comes.
inline Response next_answer(const os::Fd& user, std::uint64_t id = 1) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  std::array<std::byte, kHeaderBytes> head{};
  EXPECT_TRUE(os::receive_all(user.get(), head, deadline));
  auto header = parse_header(head, {});
  EXPECT_TRUE(header) << header.status().message();
  if (!header) return {};
  EXPECT_EQ(header->id, id);
  std::vector<std::byte> body(header->body_bytes);
  EXPECT_TRUE(os::receive_all(user.get(), body, deadline));
  auto response = parse_response(*header, body, {});
  EXPECT_TRUE(response);
  return response ? *response : Response();
}

/// A client that ends without a good-bye when it goes out of scope, as a process that is killed.
inline std::unique_ptr<TcpClient> abrupt(std::uint16_t port, const Request* first = nullptr) {
  auto client = TcpClient::connect({"127.0.0.1", port}, store_party(),
                                   Clock::now() + std::chrono::seconds(10), first);
  EXPECT_TRUE(client) << client.status().message();
  return std::move(client).value();
}

inline Request get(const std::string& key, std::uint32_t timeout_ms) {
  return request(Op::get, {key}, {}, timeout_ms);
}

}  // namespace tutti::store
