#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "contract/transport/ranks.hpp"
#include "contract/transport/recorder.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace tutti::transport::test {

inline std::vector<std::byte> secret_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

/// Ranks on 127.0.0.1 that know the same secret.
template <bool kEncrypted>
struct SocketFixture {
  static constexpr const char* kName = "tcp";
  static constexpr bool kDetectsDeath = true;
  static constexpr bool kQueues = true;
  static constexpr int kFirstContacts = kEncrypted ? 200 : 1000;

  explicit SocketFixture(int ranks) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < ranks; ++rank) {
      auto made = TcpTransport::listen(options_of(rank, ranks));
      if (!made) throw std::runtime_error(std::string(made.status().message()));
      all.push_back(std::move(*made));
      addresses.push_back(all.back()->address());
    }
    for (auto& transport : all) {
      if (Status s = transport->set_addresses(addresses); !s)
        throw std::runtime_error(std::string(s.message()));
    }
  }
  static TcpOptions options_of(int rank, int ranks) {
    TcpOptions options;
    options.identity.rank = rank;
    options.identity.size = ranks;
    options.identity.job = 0x1234;
    options.identity.generation = 1;
    options.identity.secret = secret_of("a secret for tests");
    options.encrypt = kEncrypted;
    options.link_timeout = std::chrono::seconds(1);
    options.bind = os::Address::parse("127.0.0.1", 0).value();
    return options;
  }
  TcpTransport& at(int rank) { return *all[static_cast<std::size_t>(rank)]; }
  void kill(int rank) { all[static_cast<std::size_t>(rank)].reset(); }

  std::vector<std::unique_ptr<TcpTransport>> all;
};
using TcpFixture = SocketFixture<false>;
using TlsFixture = SocketFixture<true>;

/// A rank without any other: the test plays these.
struct LoneRank {
  std::unique_ptr<TcpTransport> transport;
  Recorder sink;

  explicit LoneRank(TcpOptions options = TcpFixture::options_of(0, 2))
      : transport(std::move(TcpTransport::listen(std::move(options))).value()) {
    transport->set_sink(&sink);
  }
  bool until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      transport->poll();
    }
    return true;
  }
};

}  // namespace tutti::transport::test
