#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::engine {

/// Notes the frames that are sent.
class NotingTransport final : public transport::Transport {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "noting"; }
  void set_sink(transport::Sink* sink) noexcept override { sink_ = sink; }
  [[nodiscard]] bool can_send(int) noexcept override { return open && room > 0; }
  bool send(int peer, const transport::FrameHeader& header, const std::byte* payload,
            std::uint64_t token) noexcept override {
    sent.push_back(header);
    --room;
    if (payload != nullptr) last_payload.assign(payload, payload + header.payload_bytes);
    if (!copies) last_[peer] = token;
    return copies;
  }
  void keep_payloads(int) noexcept override { ++kept; }
  void drop_arriving(int) noexcept override { ++dropped; }
  [[nodiscard]] bool is_unanswered(int peer) const noexcept override { return peer == unanswered; }
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

  /// The user of this transport, to which the test plays the peers.
  [[nodiscard]] transport::Sink& sink() noexcept { return *sink_; }
  [[nodiscard]] int frames(transport::FrameType type) const {
    return static_cast<int>(
        std::ranges::count(sent, static_cast<std::uint8_t>(type), &transport::FrameHeader::type));
  }
  /// Of the last frame to this peer.
  [[nodiscard]] std::uint64_t last_token(int peer) const noexcept { return last_[peer]; }
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
  int room = 1 << 30;  ///< frames that it still takes
  bool hands_over = true;
  bool copies = false;  ///< every payload is free when `send` returns
  int kept = 0;
  int dropped = 0;
  int unanswered = -1;  ///< the peer that does not answer

 private:
  transport::Sink* sink_ = nullptr;
  std::uint64_t last_[3] = {};
  std::uint64_t told_[3] = {};
};

}  // namespace tutti::engine
