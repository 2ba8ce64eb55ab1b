#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "secure/stream.hpp"

namespace tutti::store {

/// What is to be sent to one user of a server, in order.
class AnswerQueue {
 public:
  void push(std::vector<std::byte> bytes);
  /// Sends as much as the stream takes. `error` is set if it takes nothing any more.
  secure::Moved flush(secure::Stream& stream) noexcept;

  [[nodiscard]] bool empty() const noexcept { return frames_.empty(); }
  /// Not sent yet.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::deque<std::vector<std::byte>> frames_;
  std::size_t sent_ = 0;  ///< bytes of the first frame that are gone
  std::size_t bytes_ = 0;
};

}  // namespace tutti::store
