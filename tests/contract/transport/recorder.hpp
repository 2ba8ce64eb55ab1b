#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "transport/transport.hpp"

namespace tutti::transport::test {

struct Frame {
  FrameHeader header;
  std::vector<std::byte> payload;
};

/// A sink that writes everything down.
class Recorder : public Sink {
 public:
  struct Peer {
    std::vector<Frame> frames;
    std::vector<std::uint64_t> sent;  ///< tokens, as told
    std::vector<Outcome> lost;
    std::vector<std::byte> arriving;
    int heads = 0;
  };

  std::span<std::byte> on_header(int peer, const FrameHeader& header) noexcept override {
    Peer& from = peers[peer];
    ++from.heads;
    if (refused.contains(header.seq)) return {};
    // One more than asked for: an empty span would refuse a frame without payload.
    from.arriving.assign(header.payload_bytes + 1, std::byte{0xee});
    return from.arriving;
  }
  void on_frame(int peer, const FrameHeader& header) noexcept override {
    Peer& from = peers[peer];
    from.arriving.resize(header.payload_bytes);
    from.frames.push_back({header, std::move(from.arriving)});
    from.arriving.clear();
  }
  /// Written down as the frame of that number, if its head is whole.
  bool on_short(int peer, const ShortHead& head, const std::byte* payload) noexcept override;
  void on_sent(int peer, std::uint64_t token) noexcept override {
    peers[peer].sent.push_back(token);
  }
  void on_lost(int peer, const Outcome& why) noexcept override { peers[peer].lost.push_back(why); }

  [[nodiscard]] std::size_t received(int peer) { return peers[peer].frames.size(); }
  [[nodiscard]] std::uint64_t sent(int peer) {
    return peers[peer].sent.empty() ? 0 : peers[peer].sent.back();
  }
  [[nodiscard]] bool lost(int peer) { return !peers[peer].lost.empty(); }

  std::map<int, Peer> peers;
  std::set<std::uint64_t> refused;  ///< sequence numbers of frames that are not wanted
};

/// The payload that belongs to a number: other numbers have other bytes in other places.
inline std::vector<std::byte> payload_of(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = number * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t at = 0; at < size; at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(&bytes[at], &state, std::min(sizeof state, size - at));
  }
  return bytes;
}

inline FrameHeader head_of(std::uint64_t number, std::size_t size) {
  return {.payload_bytes = static_cast<std::uint32_t>(size),
          .type = static_cast<std::uint8_t>(FrameType::data),
          .flags = static_cast<std::uint8_t>(number & 1),
          .group = ~number,
          .seq = number,
          .fingerprint = number * 3,
          .offset = number * 5,
          .call = {number * 7, number * 11, number * 13}};
}

inline bool same(const FrameHeader& a, const FrameHeader& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// The head of the short message of this number.
inline ShortHead short_of(std::uint64_t number, std::size_t bytes) {
  return {number * 0x9e3779b97f4a7c15, static_cast<std::uint32_t>(number * 77),
          static_cast<std::uint16_t>(number), static_cast<std::uint8_t>(number % 13),
          static_cast<std::uint16_t>(bytes)};
}

inline bool Recorder::on_short(int peer, const ShortHead& head, const std::byte* payload) noexcept {
  if (refused.contains(head.number)) return false;
  const ShortHead whole = short_of(head.number, head.bytes);
  const bool is_whole =
      head.group == whole.group && head.tag == whole.tag && head.dtype == whole.dtype;
  peers[peer].frames.push_back({is_whole ? head_of(head.number, head.bytes) : FrameHeader{},
                                {payload, payload + head.bytes}});
  return true;
}

}  // namespace tutti::transport::test
