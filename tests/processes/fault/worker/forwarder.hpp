#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <thread>
#include <utility>

#include "os/address.hpp"
#include "os/socket.hpp"
#include "speak.hpp"

// What stands between a host and a published port of a container behind it.
namespace tutti::fault {

/// What one side of a connection says to the other, until its end.
inline void pass_on(int from, int to) {
  std::array<char, 64 * 1024> buffer;
  while (true) {
    pollfd readable{from, POLLIN, 0};
    if (::poll(&readable, 1, -1) < 0) break;
    const ssize_t got = ::recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) break;
    const auto bytes = std::as_bytes(std::span(buffer).first(static_cast<std::size_t>(got)));
    const auto far = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    if (!os::send_all(to, bytes, far).ok()) break;
  }
  ::shutdown(to, SHUT_WR);
}

/// Hands on what comes to a port to an endpoint, until it is killed. Says "taken" of connections.
inline int forward(int port, const std::string& to) {
  const os::Address target = os::Address::parse_endpoint(to).value();
  const auto from = os::Address::parse("0.0.0.0", static_cast<std::uint16_t>(port));
  const os::Fd listener = os::listen_tcp(from.value()).value();
  say("listens");
  while (true) {
    const auto far = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    if (!os::wait_ready(listener.get(), POLLIN, far).value()) continue;
    auto taken = os::accept_connection(listener.get());
    if (!taken || !taken->valid()) continue;
    say("taken");
    auto onward = os::connect_tcp(target, far);
    if (!onward) continue;
    std::thread([near_side = std::move(*taken), far_side = std::move(*onward)] {
      std::thread back([&] { pass_on(far_side.get(), near_side.get()); });
      pass_on(near_side.get(), far_side.get());
      back.join();
    }).detach();
  }
}

}  // namespace tutti::fault
