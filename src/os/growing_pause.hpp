#pragma once

#include <chrono>

namespace tutti::os {

/// Pauses between attempts: each about twice the one before, up to a quarter of a second. Their
/// lengths differ from process to process, so that processes that failed together do not return
/// together.
class GrowingPause {
 public:
  std::chrono::milliseconds next() noexcept;

 private:
  std::chrono::milliseconds mean_{8};
};

}  // namespace tutti::os
