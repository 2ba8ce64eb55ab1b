#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>

#include "os/address.hpp"
#include "os/socket.hpp"

/// A port that is free, and so is the next one. Not one of those that the system hands out by
/// itself (32768 and up), where another program may get it before it is used.
inline int free_port() {
  constexpr int kFirst = 10'000;
  constexpr int kPairs = 9'000;
  static int next = static_cast<int>(getpid()) * 37;
  const auto listen = [](int port) {
    return tutti::os::listen_tcp(
        tutti::os::Address::parse("127.0.0.1", static_cast<std::uint16_t>(port)).value());
  };
  for (int tried = 0; tried < kPairs; ++tried) {
    const int port = kFirst + 2 * (next++ % kPairs);
    const auto one = listen(port);
    const auto two = listen(port + 1);
    if (one && two) return port;
  }
  ADD_FAILURE() << "no port is free";
  return 0;
}
