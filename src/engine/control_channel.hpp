#pragma once

#include <string>

#include "transport/transport.hpp"

namespace tutti::engine {

/// Sends and takes in control frames, in order, to and from each rank of the world.
class ControlChannel {
 public:
  /// Sends a frame, unless the rank is lost or has left. `payload`: a text.
  virtual void control(int peer, const transport::FrameHeader& header,
                       std::string payload = {}) = 0;
  /// Takes in frames that have come from this rank, and perhaps from others. False: none has. It
  /// handles them before it returns, so operations may end and groups may break inside it.
  virtual bool take_in(int peer) = 0;
  /// True if the rank has ended gracefully, and all its frames have come.
  [[nodiscard]] virtual bool has_left(int peer) const noexcept = 0;

 protected:
  ~ControlChannel() = default;
};

}  // namespace tutti::engine
