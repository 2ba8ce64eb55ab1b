#include "transport/tcp/send_queue.hpp"

#include <algorithm>
#include <cstring>

namespace tutti::transport {

void SendQueue::push(const FrameHeader& header, const std::byte* payload,
                     std::uint64_t token) noexcept {
  Frame& frame = at(count_++);
  frame.header = header;
  frame.payload = payload;
  frame.token = token;
  bytes_ += sizeof header + header.payload_bytes;
}

void SendQueue::push_leave() noexcept {
  FrameHeader leave;
  leave.type = static_cast<std::uint8_t>(FrameType::leave);
  push(leave, nullptr, 0);
}

std::size_t SendQueue::pieces(std::span<iovec, kMaxPieces> out) const noexcept {
  std::size_t pieces = 0;
  const auto add = [&](const void* data, std::size_t size, std::size_t done) {
    if (size <= done) return;
    auto* bytes = const_cast<std::byte*>(static_cast<const std::byte*>(data));
    out[pieces++] = {bytes + done, size - done};
  };
  for (std::size_t i = 0; i < count_; ++i) {
    const Frame& frame = at(i);
    const std::size_t done = i == 0 ? progress_ : 0;
    const std::size_t head = sizeof frame.header;
    add(&frame.header, head, std::min(done, head));
    add(frame.payload, frame.header.payload_bytes, done > head ? done - head : 0);
  }
  return pieces;
}

void SendQueue::sent(std::size_t bytes) noexcept {
  bytes_ -= bytes;
  progress_ += bytes;
  while (count_ > 0) {
    const Frame& frame = at(0);
    const std::size_t size = sizeof frame.header + frame.header.payload_bytes;
    if (progress_ < size) break;
    progress_ -= size;
    finished_ = std::max(finished_, frame.token);
    head_ = (head_ + 1) % ring_.size();
    --count_;
  }
}

void SendQueue::keep_payloads() {
  for (std::size_t i = 0; i < count_; ++i) {
    Frame& frame = at(i);
    const std::size_t size = frame.header.payload_bytes;
    if (size == 0 || frame.payload == frame.kept.data()) continue;
    frame.kept.resize(kMaxFramePayload);
    // The bytes that are sent already may be gone by now.
    const std::size_t head = sizeof frame.header;
    const std::size_t done = i == 0 && progress_ > head ? progress_ - head : 0;
    std::memcpy(frame.kept.data() + done, frame.payload + done, size - done);
    frame.payload = frame.kept.data();
  }
}

void SendQueue::clear() noexcept { head_ = count_ = bytes_ = progress_ = 0; }

}  // namespace tutti::transport
