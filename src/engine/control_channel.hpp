#pragma once

#include <string>

#include "transport/transport.hpp"

namespace tutti::engine {

/// Sends frames that carry no data of operations, in order to each rank of the world.
class ControlChannel {
 public:
  /// Sends nothing to a rank that is lost or has left. `payload`: in words.
  virtual void control(int peer, const transport::FrameHeader& header,
                       std::string payload = {}) = 0;

 protected:
  ~ControlChannel() = default;
};

}  // namespace tutti::engine
