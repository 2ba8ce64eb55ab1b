// Many ranks at once: all dial one listener, and all wait for the same keys of a store.

#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <tutti/store.hpp>

#include "tcp_rank.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace {

using tutti::bench::listen;
using tutti::transport::FrameHeader;
using tutti::transport::FrameType;
using tutti::transport::Sink;
using tutti::transport::TcpTransport;

class Ignore final : public Sink {
 public:
  std::span<std::byte> on_header(int, const FrameHeader&) noexcept override {
    return room_;  // none would refuse the frame
  }
  void on_frame(int, const FrameHeader&) noexcept override {}
  void on_sent(int, std::uint64_t) noexcept override {}
  void on_lost(int, const tutti::Outcome&) noexcept override {}

 private:
  std::array<std::byte, 1> room_{};
};

void raise_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/// One thread plays all ranks; dialers look at their sockets every 10 ms only.
void dial_one_listener(benchmark::State& state) {
  raise_descriptors();
  const int size = static_cast<int>(state.range(0)) + 1;
  std::uint64_t redials = 0;
  for ([[maybe_unused]] auto once : state) {
    Ignore sink;
    const auto listener = listen(0, size, sink);
    std::vector<std::string> addresses(static_cast<std::size_t>(size));
    addresses[0] = listener->address();
    std::vector<std::unique_ptr<TcpTransport>> dialers;
    for (int rank = 1; rank < size; ++rank) {
      dialers.push_back(listen(rank, size, sink));
      if (!dialers.back()->set_addresses(addresses).ok()) return state.SkipWithError("addresses");
    }
    const auto start = std::chrono::steady_clock::now();
    FrameHeader header;
    header.type = static_cast<std::uint8_t>(FrameType::data);
    for (const auto& dialer : dialers) dialer->send(0, header, nullptr, 1);
    while (!std::ranges::all_of(dialers, [](const auto& one) { return one->connected(0); })) {
      for (const auto& dialer : dialers) dialer->poll();
      const auto next = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
      while (std::chrono::steady_clock::now() < next) listener->poll();
      if (next - start > std::chrono::seconds(20)) return state.SkipWithError("not connected");
    }
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    for (const auto& dialer : dialers) redials += dialer->counters().redials;
  }
  state.counters["redials"] = static_cast<double>(redials);
}
BENCHMARK(dial_one_listener)
    ->Arg(999)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

/// Users of one server wait for the same keys, which are set one after the other.
void wait_for_keys(benchmark::State& state) {
  raise_descriptors();
  std::vector<std::string> keys;
  for (int i = 0; i < state.range(1); ++i) keys.push_back("key " + std::to_string(i));
  const std::vector<std::byte> secret(32, std::byte{7});
  for ([[maybe_unused]] auto once : state) {
    const auto server = tutti::make_tcp_store({.serve = true, .secret = secret});
    std::vector<std::thread> users;
    for (int i = 0; i < state.range(0); ++i) {
      users.emplace_back([&] {
        const auto store = tutti::make_tcp_store({.port = server->port(), .secret = secret});
        store->add("came", 1);
        store->multi_get(keys, std::chrono::minutes(2));
      });
    }
    while (server->add("came", 0) < state.range(0)) std::this_thread::yield();
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& key : keys) server->set(key, "value");
    for (std::thread& user : users) user.join();
    state.SetIterationTime(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
}
BENCHMARK(wait_for_keys)
    ->Args({400, 1000})
    ->Args({2000, 10})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
