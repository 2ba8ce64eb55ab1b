// Any bytes, cut anywhere: the reader finds the same frames, and writes only where it may.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "transport/tcp/frame_reader.hpp"

namespace {

using tutti::transport::FrameHeader;
using tutti::transport::FrameReader;
using tutti::transport::kMaxFramePayload;
using Outcome = FrameReader::Outcome;

void require(bool condition) {
  if (!condition) std::abort();
}

/// Remembers what it was told, and guards the byte behind each payload.
class Sink final : public tutti::transport::Sink {
 public:
  std::span<std::byte> on_header(int, const FrameHeader& header) noexcept override {
    require(header.payload_bytes <= kMaxFramePayload);
    require(!arriving_);
    note(&header, sizeof header);
    if (header.seq % 7 == 6) return {};
    arriving_ = true;
    room_.assign(header.payload_bytes + 1, std::byte{0x5a});
    return room_;
  }
  void on_frame(int, const FrameHeader& header) noexcept override {
    require(arriving_);
    arriving_ = false;
    require(room_.back() == std::byte{0x5a});
    note(room_.data(), header.payload_bytes);
  }
  void on_sent(int, std::uint64_t) noexcept override {}
  void on_lost(int, const tutti::Status&) noexcept override {}

  std::vector<std::byte> trace;

 private:
  void note(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    trace.insert(trace.end(), bytes, bytes + size);
  }
  bool arriving_ = false;
  std::vector<std::byte> room_;
};

/// With `direct`, payloads are put in place as a socket would.
Outcome run(std::span<const std::byte> bytes, std::size_t step, bool direct, Sink& sink) {
  FrameReader reader(0);
  while (!bytes.empty()) {
    std::size_t count = std::min(step, bytes.size());
    Outcome outcome = Outcome::ok;
    const std::span<std::byte> awaited = reader.awaited();
    if (direct && !awaited.empty()) {
      count = std::min(count, awaited.size());
      std::memcpy(awaited.data(), bytes.data(), count);
      outcome = reader.filled(count, sink);
    } else {
      outcome = reader.feed(bytes.first(count), sink);
    }
    if (outcome != Outcome::ok) return outcome;
    bytes = bytes.subspan(count);
  }
  return Outcome::ok;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t step = 1 + data[0] % 200;
  const bool compact = (data[1] & 1) != 0;
  std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 2,
                               reinterpret_cast<const std::byte*>(data) + size);
  // Half of the inputs are made to hold plausible heads, or hardly any would get past the first.
  if (compact) {
    for (std::size_t at = 0; at + sizeof(FrameHeader) <= bytes.size();) {
      const std::size_t payload = std::to_integer<std::size_t>(bytes[at]);
      bytes[at + 1] = bytes[at + 2] = bytes[at + 3] = bytes[at + 6] = bytes[at + 7] = std::byte{0};
      bytes[at + 4] = static_cast<std::byte>(1 + std::to_integer<unsigned>(bytes[at + 4]) % 7);
      at += sizeof(FrameHeader) + payload;
    }
  }
  Sink whole;
  Sink cut;
  Sink placed;
  const Outcome expected = run(bytes, bytes.size(), false, whole);
  require(run(bytes, step, false, cut) == expected);
  require(run(bytes, step, true, placed) == expected);
  require(cut.trace == whole.trace);
  require(placed.trace == whole.trace);
  return 0;
}
