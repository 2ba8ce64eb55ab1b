#include "transport/tcp/frame_reader.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tutti::transport {

// Heads are copied as they lie in memory.
static_assert(std::endian::native == std::endian::little);

FrameReader::Verdict FrameReader::begin_frame(Sink& sink) noexcept {
  std::memcpy(&header_, head_.data(), sizeof header_);
  const auto type = static_cast<FrameType>(header_.type);
  if (type < kFirstFrameType || type > kLastFrameType || header_.reserved != 0)
    return Verdict::malformed;
  if (header_.payload_bytes > kMaxFramePayload) return Verdict::oversized;
  if (type == FrameType::leave) return Verdict::left;
  const std::span<std::byte> target = sink.on_header(peer_, header_);
  if (target.empty() || target.size() < header_.payload_bytes) return Verdict::refused;
  target_ = target.first(header_.payload_bytes);
  if (target_.empty()) {
    head_bytes_ = 0;
    sink.on_frame(peer_, header_);
  }
  return Verdict::ok;
}

FrameReader::Verdict FrameReader::feed(std::span<const std::byte> bytes, Sink& sink) noexcept {
  while (!bytes.empty()) {
    if (skip_ > 0) {
      const std::size_t count = std::min(skip_, bytes.size());
      skip_ -= count;
      bytes = bytes.subspan(count);
    } else if (!target_.empty()) {
      const std::size_t count = std::min(target_.size(), bytes.size());
      std::memcpy(target_.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
      if (const Verdict outcome = filled(count, sink); outcome != Verdict::ok) return outcome;
    } else {
      const std::size_t count = std::min(head_.size() - head_bytes_, bytes.size());
      std::memcpy(head_.data() + head_bytes_, bytes.data(), count);
      head_bytes_ += count;
      bytes = bytes.subspan(count);
      if (head_bytes_ < head_.size()) break;
      if (const Verdict outcome = begin_frame(sink); outcome != Verdict::ok) return outcome;
    }
  }
  return Verdict::ok;
}

FrameReader::Verdict FrameReader::filled(std::size_t bytes, Sink& sink) noexcept {
  target_ = target_.subspan(bytes);
  if (target_.empty()) {
    head_bytes_ = 0;
    sink.on_frame(peer_, header_);
  }
  return Verdict::ok;
}

void FrameReader::drop_arriving() noexcept {
  if (target_.empty()) return;
  skip_ = target_.size();
  target_ = {};
  head_bytes_ = 0;
}

}  // namespace tutti::transport
