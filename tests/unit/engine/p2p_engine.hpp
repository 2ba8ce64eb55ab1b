#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "lone_engine.hpp"

namespace tutti::engine {

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
    if (buffer != nullptr) (kind == Kind::send ? call.input : call.output) = view_of(*buffer);
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
            static_cast<std::uint64_t>(tag),
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
    const std::optional<Status> outcome = engine_.outcome(group, ticket);
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
