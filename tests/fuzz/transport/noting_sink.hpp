#pragma once

#include <span>
#include <vector>

#include "fuzz/fuzzer.hpp"
#include "transport/transport.hpp"

namespace tutti::fuzz {

/// Remembers what it was told unless that is not wanted, and guards the byte behind each payload.
/// Refuses every seventh operation.
class NotingSink final : public transport::Sink {
 public:
  enum class Notes { all, none };
  explicit NotingSink(Notes notes = Notes::all) : notes_(notes) {}

  std::span<std::byte> on_header(int, const transport::FrameHeader& header) noexcept override {
    require(header.payload_bytes <= transport::kMaxFramePayload);
    require(!arriving_ && !lost_);
    note(&header, sizeof header);
    if (header.seq % 7 == 6) return {};
    arriving_ = true;
    room_.assign(header.payload_bytes + 1, std::byte{0x5a});
    return room_;
  }
  void on_frame(int, const transport::FrameHeader& header) noexcept override {
    require(arriving_);
    arriving_ = false;
    require(room_.back() == std::byte{0x5a});
    note(room_.data(), header.payload_bytes);
  }
  bool on_short(int, const transport::ShortHead& head, const std::byte* payload) noexcept override {
    require(head.bytes <= transport::kMaxShort);
    require(!arriving_ && !lost_);
    note(&head, sizeof head);
    note(payload, head.bytes);
    return head.number % 7 != 6;
  }
  void on_sent(int, std::uint64_t) noexcept override {}
  void on_lost(int, const Outcome& why) noexcept override {
    require(!lost_ && !why.ok());
    lost_ = true;
  }

  /// The frame that arrives will not.
  void drop_arriving() noexcept { arriving_ = false; }
  [[nodiscard]] bool lost() const noexcept { return lost_; }
  [[nodiscard]] const std::vector<std::byte>& trace() const noexcept { return trace_; }

 private:
  void note(const void* data, std::size_t size) {
    if (notes_ == Notes::none) return;
    const auto* bytes = static_cast<const std::byte*>(data);
    trace_.insert(trace_.end(), bytes, bytes + size);
  }

  Notes notes_;
  std::vector<std::byte> trace_;
  std::vector<std::byte> room_;
  bool arriving_ = false;
  bool lost_ = false;
};

}  // namespace tutti::fuzz
