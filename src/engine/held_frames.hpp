#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <utility>
#include <vector>

#include "engine/frame_buffers.hpp"
#include "transport/frames.hpp"

namespace tutti::engine {

/// Frames of one peer that came before they can be used, oldest first, within the memory that they
/// may take.
class HeldFrames {
 public:
  struct Frame {
    transport::FrameHeader header;
    std::vector<std::byte> data;  ///< a buffer of FrameBuffers; empty without a payload
  };
  using Iterator = std::pmr::deque<Frame>::iterator;

  /// Bytes of each frame besides its payload: the object, and its share of the unused memory in the
  /// blocks of std::deque.
  static constexpr std::size_t kBookkeeping = sizeof(Frame) + 24;
  /// All the memory that a frame with this head takes while it is held.
  [[nodiscard]] static constexpr std::size_t memory_of(
      const transport::FrameHeader& header) noexcept {
    const std::size_t bytes = header.payload_bytes;
    return kBookkeeping + (bytes == 0 ? 0 : FrameBuffers::size_for(bytes));
  }

  /// `pool`: keeps memory, so that a steady flow of frames needs none from the system.
  explicit HeldFrames(std::pmr::memory_resource* pool) : frames_(pool) {}

  void push(const transport::FrameHeader& header, std::vector<std::byte> data) {
    memory_ += memory_of(header);
    frames_.push_back({header, std::move(data)});
  }
  /// Holds a control frame; one of each type and operation is enough.
  void push_control(const transport::FrameHeader& header);
  /// True if this frame may be held while so many operations run here.
  [[nodiscard]] bool has_room(const transport::FrameHeader& header, int operations) const noexcept;
  /// The oldest frame of this type of an operation; end(): none.
  [[nodiscard]] Iterator find(transport::FrameType type, std::uint64_t group,
                              std::uint64_t seq) noexcept;
  /// The same for a control frame, which is not held after this.
  [[nodiscard]] std::optional<transport::FrameHeader> take(transport::FrameType type,
                                                           std::uint64_t group,
                                                           std::uint64_t seq) noexcept;
  Iterator erase(Iterator at) noexcept {
    memory_ -= memory_of(at->header);
    return frames_.erase(at);
  }
  /// Drops frames for which `leaves` returns true; it is called once for each.
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

 private:
  std::pmr::deque<Frame> frames_;
  std::size_t memory_ = 0;  ///< of all of them
};

}  // namespace tutti::engine
