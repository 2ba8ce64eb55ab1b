#pragma once

#include <poll.h>

#include <chrono>
#include <ctime>

namespace tutti::cuda {

/// Neither an event of the GPU nor NCCL can be waited for together with other ranks and a deadline.
/// So a caller that waits looks again and again, with pauses.
inline void pause(std::chrono::nanoseconds time) noexcept {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  timespec span{};
  span.tv_sec = static_cast<std::time_t>(whole.count());
  span.tv_nsec = static_cast<long>((time - whole).count());
  (void)::ppoll(nullptr, 0, &span, nullptr);
}

}  // namespace tutti::cuda
