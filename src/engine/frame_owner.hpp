#pragma once

#include <cstdint>

namespace tutti::engine {

/// Is told when the memory that a frame is sent from may be used again. An operation or a send or
/// recv, whose caller owns the memory.
class FrameOwner {
 public:
  FrameOwner() = default;
  FrameOwner(const FrameOwner&) = delete;
  FrameOwner& operator=(const FrameOwner&) = delete;

  /// A frame that was sent with this id has left the owner's memory.
  virtual void on_frame_sent(std::uint64_t id) noexcept = 0;
  /// The peer went away first: the frame may never have arrived, and nothing is read any more.
  virtual void on_frame_lost(std::uint64_t id) noexcept = 0;

 protected:
  ~FrameOwner() = default;
};

}  // namespace tutti::engine
