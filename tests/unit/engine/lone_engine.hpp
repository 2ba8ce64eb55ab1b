#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
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
    world.transports = {nullptr, &transport_, &transport_};
    world.whereabouts = {"", "", ""};
    world.now = []() noexcept { return lone_engine_now; };
    world.populate = [](std::byte*, std::size_t) { return Outcome(); };
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
    const std::span<std::byte> into = transport_.sink().on_header(peer, header);
    if (into.empty() || into.size() < header.payload_bytes) return false;
    std::copy(payload.begin(), payload.end(), into.begin());
    transport_.sink().on_frame(peer, header);
    return true;
  }

  verify::sim::Memory memory_{{0, 1, 2}};
  NotingTransport transport_;
  Engine engine_;
};

/// Sends, recvs and messages of bytes; all ranks are in the group.
class P2PEngine : public LoneEngine {
 protected:
  using Bytes = std::vector<std::uint8_t>;

  Group& group(std::uint64_t id = 1, std::vector<int> ranks = {0, 1, 2}) {
    return LoneEngine::group(id, std::move(ranks));
  }
  /// A send of the bytes or a recv into them; a probe needs none.
  std::uint64_t call(Group& group, Kind kind, int peer, int tag, Bytes* buffer,
                     std::chrono::nanoseconds timeout = std::chrono::seconds(1),
                     const Details* details = nullptr) {
    Collective call{.kind = kind,
                    .root = peer,
                    .tag = tag,
                    .timeout = timeout,
                    .input = {},
                    .output = {},
                    .details = details};
    if (buffer != nullptr) (kind == Kind::send ? call.input : call.output) = TensorView(*buffer);
    return engine_.submit(group, call);
  }
  std::uint64_t recv(Group& group, Bytes& to, int from, int tag = 0) {
    return call(group, Kind::recv, from, tag, &to);
  }
  std::uint64_t send(Group& group, Bytes& from, int to, int tag = 0) {
    return call(group, Kind::send, to, tag, &from);
  }
  /// The envelope of a peer's send of these bytes.
  static transport::Envelope envelope(std::uint64_t number, std::size_t bytes, int tag = 0,
                                      std::uint64_t group = 1) {
    return {group,
            number,
            1000 + number,
            static_cast<std::uint64_t>(DType::uint8),
            static_cast<std::uint32_t>(tag),
            bytes};
  }
  static transport::FrameHeader eager(std::uint64_t number, std::size_t bytes, int tag = 0,
                                      std::uint64_t group = 1) {
    return encode(transport::EagerMessageFrame{envelope(number, bytes, tag, group)});
  }
  static transport::FrameHeader rts(std::uint64_t number, std::size_t bytes, int tag = 0,
                                    std::uint64_t group = 1) {
    return encode(transport::RtsFrame{envelope(number, bytes, tag, group)});
  }
  /// An eager message; true unless it was refused.
  bool message_from(int peer, std::uint64_t number, const Bytes& values, int tag = 0,
                    std::uint64_t group = 1) {
    const auto bytes = std::as_bytes(std::span(values));
    return hear(peer, eager(number, values.size(), tag, group), {bytes.begin(), bytes.end()});
  }
  [[nodiscard]] bool done(Group& group, std::uint64_t ticket) {
    settle();
    return engine_.is_done(group, ticket);
  }
  /// Receives a message that must be here.
  Bytes next(Group& group, std::size_t count, int from, int tag = 0) {
    Bytes got(count);
    EXPECT_TRUE(done(group, recv(group, got, from, tag)));
    return got;
  }
  /// The failure of a call.
  [[nodiscard]] Errc error_of(Group& group, std::uint64_t ticket) {
    const std::optional<Outcome> outcome = engine_.outcome(group, ticket);
    EXPECT_TRUE(engine_.is_done(group, ticket) && outcome);
    return outcome ? outcome->code() : Errc::ok;
  }
};

/// With the group of all from the beginning.
class P2PWorld : public P2PEngine {
 protected:
  Group& world_ = group();
};

}  // namespace tutti::engine
