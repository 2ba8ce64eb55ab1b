#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace tutti::test {

/// Sleeps a millisecond again and again and notes by how much it woke too late at worst: so much of
/// what a test measures beside it is the machine's, for each time that somebody had to wake.
class Sleeper {
 public:
  Sleeper() : thread_([this] { sleep(); }) {}
  ~Sleeper() {
    stop_ = true;
    thread_.join();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  [[nodiscard]] double latest_s() const { return latest_; }
  /// So long may take what was promised within `seconds`, where a handful of threads and processes
  /// have to wake one after the other.
  [[nodiscard]] double allowed_s(double seconds) const { return seconds + 6 * latest_s(); }

 private:
  void sleep() {
    constexpr auto kNap = std::chrono::milliseconds(1);
    while (!stop_) {
      const auto before = std::chrono::steady_clock::now();
      std::this_thread::sleep_for(kNap);
      const std::chrono::duration<double> late = std::chrono::steady_clock::now() - before - kNap;
      latest_ = std::max(latest_.load(), late.count());
    }
  }

  std::atomic<bool> stop_{false};
  std::atomic<double> latest_{0};
  std::thread thread_;  // last: it begins at once
};

}  // namespace tutti::test
