#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tutti/store.hpp>
#include "os/socket.hpp"
#include "store/handshake.hpp"
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
inline std::shared_ptr<TcpStore> join(std::uint16_t port, std::vector<std::byte> secret = {}) {
  return join_tcp_store({.port = port, .timeout = std::chrono::seconds(10)},
                        {std::move(secret), std::string(kGivenSecret)})
      .store;
}

/// A user of a store that a process of this user serves at that port.
inline std::shared_ptr<TcpStore> join_own(std::uint16_t port) {
  return tutti::make_tcp_store({.port = port, .timeout = std::chrono::seconds(10)});
}

/// Who has come in, and may ask for what it likes.
inline os::Fd dial_and_prove(const TcpServer& server) {
  os::Fd fd = dial(server);
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  auto hello = make_hello({});
  EXPECT_TRUE(os::send_all(fd.get(), *hello, deadline));
  Reply reply;
  EXPECT_TRUE(os::receive_all(fd.get(), reply, deadline));
  EXPECT_TRUE(os::send_all(fd.get(), Proof{}, deadline));
  Verdict verdict;
  EXPECT_TRUE(os::receive_all(fd.get(), verdict, deadline));
  EXPECT_TRUE(check_verdict(verdict));
  return fd;
}

inline Request get(const std::string& key, std::uint32_t timeout_ms) {
  Request request;
  request.op = Op::get;
  request.timeout_ms = timeout_ms;
  request.keys = {key};
  return request;
}

}  // namespace tutti::store
