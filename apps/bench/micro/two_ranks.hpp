#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::bench {

/// One of two ranks. Its derived class has `look`, which polls.
template <class Transport, class Sink>
struct SendingRank {
  std::unique_ptr<Transport> transport;
  Sink sink;
  std::uint64_t token = 0;
  std::vector<std::byte> payload = std::vector<std::byte>(tutti::transport::kMaxFramePayload);

  void send(int peer, std::size_t bytes) {
    tutti::transport::FrameHeader header;
    header.type = static_cast<std::uint8_t>(tutti::transport::FrameType::data);
    header.payload_bytes = static_cast<std::uint32_t>(bytes);
    transport->send(peer, header, payload.data(), ++token);
  }
};

/// One way = half a round trip; both sides spin on look().
template <class Rank>
void ping_pong(benchmark::State& state, Rank& here, Rank& there) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::atomic<bool> stop{false};
  std::thread echo([&] {
    std::uint64_t answered = 0;
    while (!stop.load(std::memory_order_relaxed)) {  // alone: nothing is published with it
      there.look();
      for (; answered < there.sink.frames; ++answered) there.send(0, bytes);
    }
  });
  std::vector<double> one_way_us;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    const std::uint64_t before = here.sink.frames;
    here.send(1, bytes);
    while (here.sink.frames == before) here.look();
    const std::chrono::duration<double, std::micro> round =
        std::chrono::steady_clock::now() - start;
    one_way_us.push_back(round.count() / 2);
  }
  stop = true;
  echo.join();
  // Others on the machine spoil the mean: these say what it costs when both have a core.
  std::ranges::sort(one_way_us);
  state.counters["p10_us"] = one_way_us[one_way_us.size() / 10];
  state.counters["p50_us"] = one_way_us[one_way_us.size() / 2];
}

}  // namespace tutti::bench
