#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "noting_transport.hpp"
#include "verify/sim/memory.hpp"

namespace tutti::engine {

/// The clock of a lone engine, which the test moves.
inline TimePoint lone_engine_now{std::chrono::hours(1)};

/// Rank 0 of three on different hosts; the others are played by the test.
class LoneEngine : public testing::Test {
 protected:
  explicit LoneEngine(std::string algorithms = "") : engine_(world(std::move(algorithms))) {}

  World world(std::string algorithms) {
    World world;
    world.size = 3;
    world.regions = &memory_.regions(0);
    world.host_of = {0, 1, 2};
    world.local_of = {0, -1, -1};
    world.route = {nullptr, &transport_, &transport_};
    world.whereabouts = {"", "", ""};
    world.now = []() noexcept { return lone_engine_now; };
    world.populate = [](std::byte*, std::size_t) { return Status(); };
    world.algorithms = std::move(algorithms);
    return world;
  }
  Group& group(std::uint64_t id, std::vector<int> ranks) {
    Result<Group*> made = engine_.add_group(
        {.id = id, .name = "group " + std::to_string(id), .ranks = std::move(ranks)});
    EXPECT_TRUE(made.ok());
    return **made;
  }
  void settle() {
    for (int i = 0; i < 100 && engine_.progress(); ++i) {
    }
  }
  /// The peer says something. True unless it was refused.
  bool hear(int peer, const transport::FrameHeader& header,
            const std::vector<std::byte>& payload = {}) {
    const std::span<std::byte> into = engine_.on_header(peer, header);
    if (into.empty() || into.size() < header.payload_bytes) return false;
    std::copy(payload.begin(), payload.end(), into.begin());
    engine_.on_frame(peer, header);
    return true;
  }

  verify::sim::Memory memory_{{0, 1, 2}};
  NotingTransport transport_;
  Engine engine_;
};

}  // namespace tutti::engine
