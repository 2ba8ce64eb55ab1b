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
#include "verify/sim/memory.hpp"

namespace tutti::engine {

/// Notes the frames that are sent.
class NotingTransport final : public transport::Transport {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "noting"; }
  void set_sink(transport::Sink* sink) noexcept override { sink_ = sink; }
  [[nodiscard]] bool can_send(int) noexcept override { return open; }
  void send(int peer, const transport::FrameHeader& header, const std::byte* payload,
            std::uint64_t token) noexcept override {
    sent.push_back(header);
    if (payload != nullptr) last_payload.assign(payload, payload + header.payload_bytes);
    last_[peer] = token;
  }
  void keep_payloads(int) noexcept override { ++kept; }
  void drop_arriving(int) noexcept override { ++dropped; }
  bool poll() noexcept override {
    bool moved = false;
    for (int peer = 1; hands_over && peer < 3; ++peer) {
      if (last_[peer] == told_[peer]) continue;
      told_[peer] = last_[peer];
      sink_->on_sent(peer, told_[peer]);
      moved = true;
    }
    return moved;
  }
  [[nodiscard]] int wait_fd() const noexcept override { return -1; }
  void close(std::uint64_t) noexcept override {}

  [[nodiscard]] int frames(transport::FrameType type) const {
    return static_cast<int>(
        std::count_if(sent.begin(), sent.end(), [&](const transport::FrameHeader& one) {
          return one.type == static_cast<std::uint8_t>(type);
        }));
  }
  /// Of all frames of this type and group.
  [[nodiscard]] std::size_t bytes(transport::FrameType type, std::uint64_t group) const {
    std::size_t sum = 0;
    for (const transport::FrameHeader& header : sent) {
      if (header.type == static_cast<std::uint8_t>(type) && header.group == group)
        sum += header.payload_bytes;
    }
    return sum;
  }

  std::vector<transport::FrameHeader> sent;
  std::vector<std::byte> last_payload;
  bool open = true;
  bool hands_over = true;
  int kept = 0;
  int dropped = 0;

 private:
  transport::Sink* sink_ = nullptr;
  std::uint64_t last_[3] = {};
  std::uint64_t told_[3] = {};
};

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
    GroupSpec spec;
    spec.id = id;
    spec.name = "group " + std::to_string(id);
    spec.ranks = std::move(ranks);
    Result<Group*> made = engine_.add_group(spec);
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
