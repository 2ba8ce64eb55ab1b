#pragma once

#include <cstddef>
#include <deque>
#include <memory_resource>
#include <utility>
#include <vector>

#include "engine/frame_buffers.hpp"
#include "transport/transport.hpp"

namespace tutti::engine {

/// Frames that came from one peer before they can be used, oldest first, and how much memory it
/// takes.
class HeldFrames {
 public:
  struct Frame {
    transport::FrameHeader header;
    std::vector<std::byte> data;  ///< a buffer of FrameBuffers; empty where there is no payload
  };
  using Iterator = std::pmr::deque<Frame>::iterator;

  /// Of each frame, whatever it holds: itself, and its share of what std::deque does not use of its
  /// blocks.
  static constexpr std::size_t kBookkeeping = sizeof(Frame) + 24;
  /// Memory that a frame with this head takes while it is held, all in all.
  [[nodiscard]] static constexpr std::size_t memory_of(
      const transport::FrameHeader& header) noexcept {
    const std::size_t bytes = header.payload_bytes;
    return kBookkeeping + (bytes == 0 ? 0 : FrameBuffers::size_for(bytes));
  }

  /// `pool`: so that steady coming and going asks for no memory.
  explicit HeldFrames(std::pmr::memory_resource* pool) : frames_(pool) {}

  void push(const transport::FrameHeader& header, std::vector<std::byte> data) {
    memory_ += memory_of(header);
    frames_.push_back({header, std::move(data)});
  }
  Iterator erase(Iterator at) noexcept {
    memory_ -= memory_of(at->header);
    return frames_.erase(at);
  }
  /// Drops those for which `leaves` says so; it is asked once about each.
  template <class Leaves>
  void erase_if(Leaves leaves) {
    std::erase_if(frames_, [&](Frame& frame) {
      if (!leaves(frame)) return false;
      memory_ -= memory_of(frame.header);
      return true;
    });
  }
  [[nodiscard]] Iterator begin() noexcept { return frames_.begin(); }
  [[nodiscard]] Iterator end() noexcept { return frames_.end(); }
  [[nodiscard]] auto begin() const noexcept { return frames_.begin(); }
  [[nodiscard]] auto end() const noexcept { return frames_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return frames_.size(); }
  [[nodiscard]] Frame& operator[](std::size_t i) noexcept { return frames_[i]; }
  /// Bytes that all of them take, bookkeeping included.
  [[nodiscard]] std::size_t memory() const noexcept { return memory_; }

 private:
  std::pmr::deque<Frame> frames_;
  std::size_t memory_ = 0;
};

}  // namespace tutti::engine
