// The cost of the TCP transport between two ranks on this host: the wire below every engine.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tcp_rank.hpp"
#include "transport/tcp/tcp_transport.hpp"
#include "two_ranks.hpp"

namespace {

using tutti::transport::FrameHeader;
using tutti::transport::kMaxFramePayload;
using tutti::transport::ShortHead;
using tutti::transport::Sink;
using tutti::transport::TcpOptions;
using tutti::transport::TcpTransport;

/// Counts frames; payloads go into one buffer.
class Counter final : public Sink {
 public:
  std::span<std::byte> on_header(int, const FrameHeader& header) noexcept override {
    return std::span(buffer_).first(header.payload_bytes);
  }
  void on_frame(int, const FrameHeader&) noexcept override { ++frames; }
  bool on_short(int, const ShortHead&, const std::byte*) noexcept override { return false; }
  void on_sent(int, std::uint64_t token) noexcept override { sent = token; }
  void on_lost(int, const tutti::Outcome&) noexcept override { lost = true; }

  std::uint64_t frames = 0;
  std::uint64_t sent = 0;
  bool lost = false;

 private:
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kMaxFramePayload);
};

struct Rank : tutti::bench::SendingRank<TcpTransport, Counter> {
  void look() { transport->poll(); }
};

struct Pair {
  Rank ranks[2];

  explicit Pair(bool encrypted) {
    std::vector<std::string> addresses;
    for (int r = 0; r < 2; ++r) {
      TcpOptions options;
      options.encrypt = encrypted;
      if (encrypted) options.identity.secret = std::vector<std::byte>(32, std::byte{'s'});
      ranks[r].transport = tutti::bench::listen(r, 2, ranks[r].sink, std::move(options));
      addresses.push_back(ranks[r].transport->address());
    }
    for (Rank& rank : ranks) static_cast<void>(rank.transport->set_addresses(addresses));
    ranks[0].send(1, 8);
    while (ranks[1].sink.frames == 0) {
      for (Rank& rank : ranks) rank.transport->poll();
    }
    ranks[1].sink.frames = 0;
  }
};

void ping_pong(benchmark::State& state, bool encrypted) {
  Pair pair(encrypted);
  tutti::bench::ping_pong(state, pair.ranks[0], pair.ranks[1]);
}

// Frames of 128 KiB from one rank to the other.
void stream(benchmark::State& state, bool encrypted) {
  Pair pair(encrypted);
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {  // alone: nothing is published with it
      pair.ranks[1].transport->poll();
    }
  });
  Rank& rank = pair.ranks[0];
  constexpr int kBatch = 64;
  double best = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) {
      while (!rank.transport->can_send(1)) rank.transport->poll();
      rank.send(1, kMaxFramePayload);
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, kBatch * static_cast<double>(kMaxFramePayload) / time.count());
  }
  while (rank.sink.sent < rank.token) rank.transport->poll();
  stop = true;
  reader.join();
  state.SetBytesProcessed(state.iterations() * kBatch *
                          static_cast<std::int64_t>(kMaxFramePayload));
  state.counters["best_GB_s"] = best;
}

// The cost of a poll that finds nothing.
void idle_poll(benchmark::State& state, bool encrypted) {
  Pair pair(encrypted);
  for (auto _ : state) benchmark::DoNotOptimize(pair.ranks[0].transport->poll());
}

// One thread drives both ends: what a frame costs in CPU time, however busy the machine is.
void frame_cost(benchmark::State& state, bool encrypted) {
  Pair pair(encrypted);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    const std::uint64_t before = pair.ranks[1].sink.frames;
    while (!pair.ranks[0].transport->can_send(1)) pair.ranks[0].transport->poll();
    pair.ranks[0].send(1, bytes);
    while (pair.ranks[1].sink.frames == before) pair.ranks[1].transport->poll();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(frame_cost, plain, false)->Arg(8)->Arg(64)->Arg(4096)->Arg(131072);
BENCHMARK_CAPTURE(frame_cost, tls, true)->Arg(8)->Arg(64)->Arg(4096)->Arg(131072);
BENCHMARK_CAPTURE(ping_pong, plain, false)->Arg(8)->Arg(64)->Arg(4096)->Arg(65536)->UseRealTime();
BENCHMARK_CAPTURE(ping_pong, tls, true)->Arg(8)->Arg(64)->Arg(4096)->Arg(65536)->UseRealTime();
BENCHMARK_CAPTURE(stream, plain, false)->UseRealTime();
BENCHMARK_CAPTURE(stream, tls, true)->UseRealTime();
BENCHMARK_CAPTURE(idle_poll, plain, false);
BENCHMARK_CAPTURE(idle_poll, tls, true);

}  // namespace
