#pragma once

#include <poll.h>

#include <chrono>
#include <mutex>

namespace tutti::base {

/// Locks the mutex if that can be done until the deadline; looks each millisecond. For the end of a
/// process. Not std::timed_mutex: TSan of GCC 12 does not know pthread_mutex_clocklock.
inline std::unique_lock<std::mutex> lock_until(std::mutex& mutex,
                                               std::chrono::steady_clock::time_point deadline) {
  std::unique_lock lock(mutex, std::try_to_lock);
  while (!lock.owns_lock() && std::chrono::steady_clock::now() < deadline) {
    (void)::poll(nullptr, 0, 1);  // no event tells of a mutex
    lock = std::unique_lock(mutex, std::try_to_lock);
  }
  return lock;
}

}  // namespace tutti::base
