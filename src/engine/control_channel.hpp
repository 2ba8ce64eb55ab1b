#pragma once

#include <string>

#include "transport/transport.hpp"

namespace tutti::engine {

/// Frames that carry no data of operations, in order to and from each rank of the world.
class ControlChannel {
 public:
  /// Sends nothing to a rank that is lost or has left. `payload`: in words.
  virtual void control(int peer, const transport::FrameHeader& header,
                       std::string payload = {}) = 0;
  /// Takes in some of what has come from this rank, and perhaps from others. False: nothing has.
  virtual bool take_in(int peer) = 0;
  /// It has ended in peace, and everything that it had to say has come.
  [[nodiscard]] virtual bool has_left(int peer) const noexcept = 0;

 protected:
  ~ControlChannel() = default;
};

}  // namespace tutti::engine
