// Any bytes, cut anywhere: the reader finds the same frames, and writes only where it may.

#include <algorithm>
#include <cstring>

#include "fuzz/fuzzer.hpp"
#include "fuzz/transport/noting_sink.hpp"
#include "transport/tcp/frame_reader.hpp"

namespace tutti::fuzz::frame_parser {

using namespace tutti::transport;
using Verdict = FrameReader::Verdict;

constexpr unsigned kTypes = static_cast<unsigned>(kLastFrameType);

/// With `direct`, payloads are put in place as a socket would.
Verdict run(std::span<const std::byte> bytes, std::size_t step, bool direct, NotingSink& sink) {
  FrameReader reader(0);
  while (!bytes.empty()) {
    std::size_t count = std::min(step, bytes.size());
    Verdict outcome = Verdict::ok;
    const std::span<std::byte> awaited = reader.awaited();
    if (direct && !awaited.empty()) {
      count = std::min(count, awaited.size());
      std::memcpy(awaited.data(), bytes.data(), count);
      outcome = reader.filled(count, sink);
    } else {
      outcome = reader.feed(bytes.first(count), sink);
    }
    if (outcome != Verdict::ok) return outcome;
    bytes = bytes.subspan(count);
  }
  return Verdict::ok;
}

/// Payloads are dropped as they arrive, each third time.
void run_dropping(std::span<const std::byte> bytes, std::size_t step) {
  NotingSink sink;
  FrameReader reader(0);
  for (unsigned turn = 0; !bytes.empty(); ++turn) {
    const std::size_t count = std::min(step, bytes.size());
    if (reader.feed(bytes.first(count), sink) != Verdict::ok) return;
    bytes = bytes.subspan(count);
    if (turn % 3 != 2) continue;
    if (!reader.awaited().empty()) sink.drop_arriving();
    reader.drop_arriving();
    require(reader.awaited().empty());
  }
}

TUTTI_FUZZER(frame_fuzz)(const std::uint8_t* data, std::size_t size) {
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
      bytes[at + 4] = static_cast<std::byte>(1 + std::to_integer<unsigned>(bytes[at + 4]) % kTypes);
      at += sizeof(FrameHeader) + payload;
    }
  }
  NotingSink whole;
  NotingSink cut;
  NotingSink placed;
  const Verdict expected = run(bytes, bytes.size(), false, whole);
  require(run(bytes, step, false, cut) == expected);
  require(run(bytes, step, true, placed) == expected);
  require(cut.trace() == whole.trace());
  require(placed.trace() == whole.trace());
  run_dropping(bytes, step);
  return 0;
}

}  // namespace tutti::fuzz::frame_parser
