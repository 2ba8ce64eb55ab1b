#pragma once

#include <pthread.h>

#include <condition_variable>
#include <mutex>

namespace tutti::base {

/// Waits for a notification; may return without one. `std::condition_variable::wait` is, since
/// GCC 12, a new symbol (GLIBCXX_3.4.30), which would keep our wheels from systems whose
/// C++ runtime is that of GCC 11.
inline void wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock) {
  (void)pthread_cond_wait(changed.native_handle(), lock.mutex()->native_handle());
}

}  // namespace tutti::base
