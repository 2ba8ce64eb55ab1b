// The cost of frames through a ring between two ranks of this host: the wire below messages that
// stay on one host. Two threads over ordinary shared mappings; see tcp_bench for the same by TCP.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "os/cpu.hpp"
#include "os/shared_memory.hpp"
#include "transport/shm/ring_transport.hpp"
#include "two_ranks.hpp"

namespace {

using tutti::transport::FrameHeader;
using tutti::transport::kMaxFramePayload;
using tutti::transport::RegionPeer;
using tutti::transport::Regions;
using tutti::transport::Sink;
namespace shm = tutti::transport::shm;

/// Counts frames; payloads go into one buffer.
class Counter final : public Sink {
 public:
  std::span<std::byte> on_header(int, const FrameHeader&) noexcept override { return buffer_; }
  void on_frame(int, const FrameHeader&) noexcept override { ++frames; }
  void on_sent(int, std::uint64_t) noexcept override {}
  void on_lost(int, const tutti::Outcome&) noexcept override { std::abort(); }

  std::uint64_t frames = 0;

 private:
  std::vector<std::byte> buffer_ = std::vector<std::byte>(kMaxFramePayload);
};

struct Rank : tutti::bench::SendingRank<shm::RingTransport, Counter> {
  Regions regions;
  /// Waits as a rank that has a CPU of its own does.
  void look() {
    if (!transport->poll()) tutti::os::relax();
  }
};

struct Pair {
  tutti::os::Mapping arenas[2];
  tutti::os::Mapping pages[2];
  Rank ranks[2];

  Pair() {
    for (int r = 0; r < 2; ++r) {
      arenas[r] = map(shm::kArenaBytes);
      pages[r] = map(shm::kPageBytes);
    }
    for (int r = 0; r < 2; ++r) {
      Regions& regions = ranks[r].regions;
      regions.self = r;
      regions.arena = arenas[r].data();
      for (int peer = 0; peer < 2; ++peer) {
        regions.peers.push_back(RegionPeer{peer, arenas[peer].data(), shm::kArenaBytes,
                                           reinterpret_cast<shm::Page*>(pages[peer].data()), -1});
      }
      ranks[r].transport =
          shm::RingTransport::make({&regions, 2, tutti::os::populate, false}).value();
      ranks[r].transport->set_sink(&ranks[r].sink);
    }
  }
  static tutti::os::Mapping map(std::size_t bytes) {
    const auto memory = tutti::os::make_memfd("ring-bench", bytes).value();
    return tutti::os::map_shared(memory, bytes, true).value();
  }
};

void ping_pong(benchmark::State& state) {
  Pair pair;
  tutti::bench::ping_pong(state, pair.ranks[0], pair.ranks[1]);
}

// Frames of one size from one rank to the other.
void stream(benchmark::State& state) {
  Pair pair;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) pair.ranks[1].look();  // as above
  });
  Rank& rank = pair.ranks[0];
  constexpr int kBatch = 256;
  double best = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kBatch; ++i) {
      while (!rank.transport->can_send(1)) tutti::os::relax();
      rank.send(1, bytes);
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::max(best, kBatch * static_cast<double>(bytes) / time.count());
  }
  stop = true;
  reader.join();
  state.SetBytesProcessed(state.iterations() * kBatch * state.range(0));
  state.counters["best_GB_s"] = best;
}

// The cost of a poll that finds nothing.
void idle_poll(benchmark::State& state) {
  Pair pair;
  for (auto _ : state) benchmark::DoNotOptimize(pair.ranks[0].transport->poll());
}

// One thread drives both ends: what a frame costs in CPU time, however busy the machine is.
void frame_cost(benchmark::State& state) {
  Pair pair;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  for (auto _ : state) {
    pair.ranks[0].send(1, bytes);
    pair.ranks[1].transport->poll();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK(frame_cost)->Arg(8)->Arg(64)->Arg(4096)->Arg(65536)->Arg(131072);
BENCHMARK(ping_pong)->Arg(8)->Arg(64)->Arg(4096)->Arg(65536)->UseRealTime();
BENCHMARK(stream)->Arg(4096)->Arg(65536)->Arg(131072)->UseRealTime();
BENCHMARK(idle_poll);

}  // namespace
