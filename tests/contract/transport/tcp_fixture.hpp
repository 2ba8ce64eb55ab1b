#pragma once

#include "contract/transport/ranks.hpp"
#include "os/socket.hpp"
#include "support/sleeper.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace tutti::transport::test {

inline std::vector<std::byte> secret_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline TcpOptions plain_options(int rank, int ranks) {
  TcpOptions options;
  options.identity.rank = rank;
  options.identity.size = ranks;
  options.identity.job = 0x1234;
  options.identity.generation = 1;
  options.identity.secret = secret_of("a secret for tests");
  options.link_timeout = std::chrono::seconds(1);
  options.bind = os::Address::parse("127.0.0.1", 0).value();
  return options;
}
inline TcpOptions encrypted_options(int rank, int ranks) {
  TcpOptions options = plain_options(rank, ranks);
  options.encrypt = true;
  return options;
}

/// Where a rank is dialled.
inline os::Address place_of(const TcpTransport& rank) {
  return os::Address::parse_endpoint(rank.address()).value();
}

/// Ranks on 127.0.0.1 that know the same secret.
struct TcpFixture : Fixture {
  TcpFixture(int ranks, bool encrypted) {
    std::vector<std::string> addresses;
    for (int rank = 0; rank < ranks; ++rank) {
      all.push_back(
          TcpTransport::listen((encrypted ? encrypted_options : plain_options)(rank, ranks))
              .value());
      addresses.push_back(all.back()->address());
    }
    for (auto& transport : all) raise_if(transport->set_addresses(addresses));
  }
  [[nodiscard]] int size() const override { return static_cast<int>(all.size()); }
  TcpTransport& at(int rank) override { return *all[static_cast<std::size_t>(rank)]; }
  void kill(int rank) override { all[static_cast<std::size_t>(rank)].reset(); }

  std::vector<std::unique_ptr<TcpTransport>> all;
};

struct TcpRanks : Ranks {
  explicit TcpRanks(int count, bool encrypted = false)
      : Ranks(std::make_unique<TcpFixture>(count, encrypted)) {}
  TcpTransport& tcp(int rank) { return static_cast<TcpTransport&>(at(rank)); }
};

/// A rank without any other: the test plays these.
struct LoneRank {
  std::unique_ptr<TcpTransport> transport;
  Recorder sink;

  explicit LoneRank(TcpOptions options = plain_options(0, 2))
      : transport(std::move(TcpTransport::listen(std::move(options))).value()) {
    transport->set_sink(&sink);
  }
  bool until(const std::function<bool()>& done) {
    return test::until(done, [&] { transport->poll(); });
  }
};

/// Ranks 1 to `count`, which dial rank 0 there and send it a frame.
struct Diallers {
  Diallers(const std::string& address, int count, TcpOptions (*options_of)(int rank, int size)) {
    for (int rank = 1; rank <= count; ++rank) {
      TcpOptions options = options_of(rank, count + 1);
      options.addresses.resize(static_cast<std::size_t>(count) + 1);
      options.addresses[0] = address;
      all.push_back(TcpTransport::listen(std::move(options)).value());
      all.back()->set_sink(&sink);
      all.back()->send(0, head_of(1, 0), nullptr, 1);
    }
  }
  [[nodiscard]] bool connected() const {
    return std::ranges::all_of(all, [](const auto& one) { return one->connected(0); });
  }
  void poll() {
    for (const auto& one : all) one->poll();
  }

  Recorder sink;
  std::vector<std::unique_ptr<TcpTransport>> all;
};

/// The status of a rank that dials one of these options.
inline Outcome dial(TcpOptions mine, TcpOptions theirs) {
  LoneRank acceptor(std::move(theirs));
  mine.addresses.assign(static_cast<std::size_t>(mine.identity.size),
                        acceptor.transport->address());
  LoneRank dialler(std::move(mine));
  dialler.transport->send(0, head_of(1, 0), nullptr, 1);
  const auto over = [&] {
    acceptor.transport->poll();
    return dialler.sink.lost(0) || acceptor.sink.received(1) > 0;
  };
  if (!dialler.until(over)) return Outcome(Errc::timeout, "neither refused nor welcome");
  EXPECT_FALSE(acceptor.sink.lost(1)) << "the acceptor was disturbed";
  EXPECT_EQ(acceptor.sink.received(1) > 0, !dialler.sink.lost(0));
  return dialler.sink.lost(0) ? dialler.sink.peers[0].lost[0] : Outcome();
}

/// A listener without a transport, at which a rank is expected; a test says what it does with
/// connections.
struct Place {
  explicit Place(int backlog = 16)
      : listener(os::listen_tcp(os::Address::parse("127.0.0.1", 0).value(), backlog).value()) {}

  [[nodiscard]] std::string address() const {
    return os::local_address(listener.get()).value().to_string();
  }
  /// Takes a connection that waits; whether there was one.
  bool take() {
    auto fd = os::accept_connection(listener.get());
    if (!fd || !fd->valid()) return false;
    taken.push_back(std::move(*fd));
    return true;
  }

  os::Fd listener;
  std::vector<os::Fd> taken;
};

/// A promise to be done within so many ms. What this machine is late in waking threads comes on
/// top.
class Promised {
 public:
  explicit Promised(double ms) : ms_(ms) {}
  /// How long it took since this was made, in ms.
  double expect_kept() {
    const long long end = tutti::test::Sleeper::now_ns();
    const double took_ms = static_cast<double>(end - start_) / 1e6;
    testing::Test::RecordProperty("milliseconds", static_cast<int>(took_ms));
    EXPECT_LT(took_ms, sleeper_.bound_ms(ms_, start_, end));
    return took_ms;
  }

 private:
  double ms_;
  tutti::test::Sleeper sleeper_;
  long long start_ = tutti::test::Sleeper::now_ns();
};

}  // namespace tutti::transport::test
