// A rank of our host that writes anything into its memory: frames are taken as they stand there or
// not at all, and it is not listened to any more after the first that makes no sense.

#include <array>
#include <chrono>
#include <memory>
#include <new>

#include "fuzz/fuzzer.hpp"
#include "fuzz/input.hpp"
#include "fuzz/transport/noting_sink.hpp"
#include "transport/shm/ring_transport.hpp"
#include "transport/shm/words.hpp"

/// Goes before that of the library: what is read here must not depend on how long it takes (a
/// transport looks how fast its lines are), or an input would not do the same each time.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
  static std::int64_t us = 0;
  return time_point(std::chrono::microseconds(++us));
}

namespace tutti::fuzz::ring_parser {

using namespace tutti::transport;
using namespace tutti::transport::shm;

constexpr int kWriter = 1;
/// One more than there are, and zero.
constexpr std::uint8_t kTypes = static_cast<std::uint8_t>(kLastFrameType) + 2;
constexpr std::size_t kBlocks = kRingBytes / kRingAlign;
constexpr std::size_t kShorts = kShortLines * sizeof(ShortMessage);

/// Zeros that end where the lines behind the ring end that is read last, so that a step behind them
/// is seen.
std::byte* new_zeros(std::size_t bytes) {
  auto* const zeros = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}));
  std::memset(zeros, 0, bytes);
  return zeros;
}

/// Two ranks of a host: us, and one whose memory the input writes.
class Pair {
 public:
  Pair()
      : control_(new_zeros(HostLayout{2}.group_id(0, 0))),
        ours_(new_zeros(kRingStride + kRingBytes + kShorts)),
        theirs_(new_zeros(kRingBytes + kShorts)) {
    regions_.arena = ours_;
    regions_.peers.resize(2);
    regions_.peers[0].control = {control_, 2, 0};
    regions_.peers[0].arena = ours_;
    regions_.peers[kWriter].rank = kWriter;
    regions_.peers[kWriter].control = {control_, 2, kWriter};
    regions_.peers[kWriter].arena = theirs_;
  }
  [[nodiscard]] const Regions& regions() const noexcept { return regions_; }
  [[nodiscard]] RingCounters& their_counters() const noexcept {
    return regions_.peers[kWriter].control.ring_counters(0);
  }
  [[nodiscard]] ShortMessage& their_short(std::uint64_t count) const noexcept {
    auto* const lines = reinterpret_cast<ShortMessage*>(theirs_ + kRingBytes);
    return lines[count % kShortLines];
  }
  /// As their first days.
  void reset() {
    std::memset(control_, 0, HostLayout{2}.group_id(0, 0));
    std::memset(theirs_ + kRingBytes, 0, kShorts);
    for (const std::uint64_t place : written_) theirs_[place] = std::byte{0};
    written_.clear();
  }
  void write(std::uint64_t at, std::span<const std::byte> bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      written_.push_back((at + i) % kRingBytes);
      theirs_[written_.back()] = bytes[i];
    }
  }

 private:
  std::byte* control_;
  std::byte* ours_;
  std::byte* theirs_;
  std::vector<std::uint64_t> written_;  ///< places in their ring: zeroing all of it takes longer
  Regions regions_;
};

class Writer {
 public:
  Writer(Pair& pair, RingTransport& transport) : pair_(pair), transport_(transport) {}

  /// A frame as it should be, which is taken.
  void frame(std::uint32_t payload) {
    const FrameHeader header{.payload_bytes = payload,
                             .type = static_cast<std::uint8_t>(FrameType::data)};
    pair_.write(written_, std::as_bytes(std::span(&header, 1)));
    advance(sizeof header + payload);
    publish(written_);
    transport_.poll();
  }
  void bytes(std::span<const std::byte> bytes) {
    pair_.write(written_, bytes);
    advance(bytes.size());
    publish(written_);
  }
  /// A head, and that so many blocks are there from where it stands.
  void announce(const FrameHeader& header, std::size_t blocks) {
    pair_.write(written_, std::as_bytes(std::span(&header, 1)));
    advance(blocks * kRingAlign);
    publish(written_);
  }
  /// A short message that is the next one, or, `ahead`, one that is not its turn yet; of so many
  /// lines, whatever its length.
  void short_message(const ShortHead& head, std::uint8_t ahead, std::size_t lines) {
    ShortMessage& line = pair_.their_short(shorts_);
    line.number = head.number;
    line.bytes = head.bytes;
    line.group = head.group;
    line.tag = head.tag;
    line.after = (units_of(written_) + ahead) | std::uint32_t{head.dtype} << 24;
    pair_.their_counters().sends_short.store(1, std::memory_order_relaxed);  // pairs with poll
    for (std::size_t i = 0; i < lines; ++i) {
      show_short(pair_.their_short(shorts_), shorts_ + 1);
      ++shorts_;
    }
  }
  void publish(std::uint64_t word) {
    pair_.their_counters().written.store(word, std::memory_order_release);  // pairs with poll
  }
  [[nodiscard]] std::uint64_t written() const noexcept { return written_; }

 private:
  void advance(std::size_t bytes) {
    written_ += (bytes + kRingAlign - 1) / kRingAlign * kRingAlign;
  }
  Pair& pair_;
  RingTransport& transport_;
  std::uint64_t written_ = 0;
  std::uint64_t shorts_ = 0;
};

void send(RingTransport& transport, std::uint32_t payload, std::uint64_t token) {
  static const std::array<std::byte, kMaxFramePayload> kPayload{};
  if (!transport.can_send(kWriter)) return;
  const FrameHeader header{.payload_bytes = payload % (kMaxFramePayload + 1),
                           .type = static_cast<std::uint8_t>(FrameType::data)};
  const ShortHead head{.bytes = static_cast<std::uint16_t>(payload % (kMaxShort + 1))};
  if (payload % 3 != 0 || !transport.send_short(kWriter, head, kPayload.data()))
    transport.send(kWriter, header, kPayload.data(), token);
}

TUTTI_FUZZER(ring_fuzz)(const std::uint8_t* data, std::size_t size) {
  static Pair pair;
  pair.reset();
  auto transport = RingTransport::make(
      {&pair.regions(), 2, [](std::byte*, std::size_t) { return Outcome(); }, false});
  require(transport.ok());
  RingTransport& ring = **transport;
  NotingSink sink(NotingSink::Notes::none);
  ring.set_sink(&sink);
  Input input(data, size);
  Writer writer(pair, ring);
  // Most of the ring is behind us in some inputs: what follows goes over its end.
  if (input.number<std::uint8_t>() % 8 == 1) {
    constexpr std::uint32_t kFrame = kMaxFramePayload - sizeof(FrameHeader);
    for (std::size_t i = 1; i < kRingBytes / kMaxFramePayload; ++i) writer.frame(kFrame);
    writer.frame(kFrame - 2 * kRingAlign);
    require(!sink.lost());
  }
  std::uint64_t token = 0;
  while (!input.empty()) {
    const auto what = input.number<std::uint8_t>();
    switch (what < 248 ? what % 8 : 8) {
      case 0: writer.bytes(input.bytes(input.number<std::uint16_t>())); break;
      case 1: writer.publish(input.number<std::uint64_t>()); break;
      case 2:
        pair.their_counters().taken.store(input.number<std::uint64_t>(),
                                          std::memory_order_release);  // pairs with can_send
        break;
      case 3: send(ring, input.number<std::uint32_t>(), ++token); break;
      case 4: writer.frame(input.number<std::uint8_t>()); break;
      case 5: writer.publish(writer.written() | kLastWord); break;
      case 6: {
        // A head of any length and type that is good otherwise, and any number of bytes behind it:
        // hardly an input would have them all.
        FrameHeader header;
        header.payload_bytes = input.number<std::uint32_t>() >> (input.number<std::uint8_t>() % 32);
        header.type = input.number<std::uint8_t>() % (kTypes + 1);
        if (header.type == kTypes) header.type = kSkipType;
        header.seq = input.number<std::uint8_t>();
        writer.announce(header, std::size_t{1} + input.number<std::uint16_t>() % kBlocks);
        break;
      }
      case 8: {
        const auto seed = input.number<std::uint16_t>();
        const auto bytes = static_cast<std::uint16_t>(seed % (kMaxShort + 2));
        const std::size_t lines = seed >= 60000 ? 1 : short_lines(bytes);
        const ShortHead head{.number = input.number<std::uint8_t>(), .bytes = bytes};
        writer.short_message(head, seed >= 65000 ? 1 : 0, lines);
        std::array<std::byte, kMaxShort> into;
        if (seed % 3 == 0 && bytes <= kMaxShort) (void)ring.take_short(kWriter, head, into.data());
        break;
      }
      default:
        ring.drop_arriving(kWriter);
        sink.drop_arriving();
        break;
    }
    ring.poll();
  }
  ring.close(0);
  require(!ring.poll());
  return 0;
}

}  // namespace tutti::fuzz::ring_parser
