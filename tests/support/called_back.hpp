#pragma once

#include <atomic>
#include <chrono>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>
#include <tutti/tutti.hpp>

// Callbacks of Works, and what they were told.
namespace tutti::test {

/// Adds 1 for a good end and 100 for a bad one.
inline Callback counts_in(std::atomic<int>& count) {
  return {[](void* context, const Outcome& outcome) noexcept {
            *static_cast<std::atomic<int>*>(context) += outcome.ok() ? 1 : 100;
          },
          &count};
}

/// The outcome that a callback was told.
struct Heard {
  std::binary_semaphore done{0};
  std::atomic<int> times{0};
  Outcome status;
  std::thread::id thread;

  /// Waits until it was told.
  void wait() { ASSERT_TRUE(done.try_acquire_for(std::chrono::seconds(60))); }
  Callback callback() {
    return {[](void* context, const Outcome& its) noexcept {
              auto* const heard = static_cast<Heard*>(context);
              heard->status = its;
              heard->thread = std::this_thread::get_id();
              ++heard->times;
              heard->done.release();
            },
            this};
  }
};

}  // namespace tutti::test
