#pragma once

#include <cstdint>

namespace tutti::engine {

/// The operation, send or recv whose memory frames are sent from or arrive in. It is called when
/// that memory may be used again.
class FrameOwner {
 public:
  FrameOwner() = default;
  FrameOwner(const FrameOwner&) = delete;
  FrameOwner& operator=(const FrameOwner&) = delete;

  /// A frame that was sent with this id has left the owner's memory.
  virtual void on_frame_sent(std::uint64_t id) noexcept = 0;
  /// The connection has ended first: the frame may not have arrived. The memory is not read any
  /// more.
  virtual void on_frame_lost(std::uint64_t id) noexcept = 0;

 protected:
  ~FrameOwner() = default;
};

}  // namespace tutti::engine
