#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

namespace tutti::test {

/// Sleeps beside what is measured, again and again for a moment, and notes how much later than
/// asked it was woken. A promise about a time holds for a machine that wakes its threads: what this
/// one took to do that comes on top. Times are CLOCK_MONOTONIC's nanoseconds, as steady_clock's.
class Sleeper {
 public:
  Sleeper() : thread_([this] { run(); }) {}
  ~Sleeper() {
    ending_ = true;
    thread_.join();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

  /// How much too late, at the worst, it was woken between these times, in ms.
  [[nodiscard]] double worst_ms(long long from, long long to) const {
    long long worst = 0;
    const std::lock_guard lock(mutex_);
    for (const Nap& nap : late_) {
      if (nap.from < to && nap.woken > from) worst = std::max(worst, nap.woken - nap.due);
    }
    // What it is late by now will be known when it wakes.
    const long long now = now_ns();
    if (due_ < to && now > from) worst = std::max(worst, std::min(now, to) - due_);
    return static_cast<double>(worst) / 1e6;
  }
  /// The most that something may take which takes no longer than `promised_ms` where whoever is to
  /// run does: each of several threads on the way may be as late as this one was.
  [[nodiscard]] double bound_ms(double promised_ms, long long from, long long to) const {
    return promised_ms + kThreadsOnTheWay * worst_ms(from, to);
  }

  static long long now_ns() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<long long>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  }

 private:
  struct Nap {
    long long from;
    long long due;
    long long woken;
  };
  static constexpr long long kNap = 2'000'000;
  static constexpr long long kInTime = 1'000'000;      // is not noted: nobody asks for less
  static constexpr long long kKept = 100'000'000'000;  // is forgotten: a test may run for hours
  static constexpr double kThreadsOnTheWay = 10;

  void run() {
    while (!ending_) {
      const long long from = now_ns();
      due_ = from + kNap;
      const timespec nap{0, kNap};
      ::nanosleep(&nap, nullptr);
      const long long woken = now_ns();
      if (woken - due_ < kInTime) continue;
      const std::lock_guard lock(mutex_);
      late_.push_back({from, due_, woken});
      while (late_.front().woken < woken - kKept) late_.pop_front();
    }
  }

  mutable std::mutex mutex_;
  std::deque<Nap> late_;
  std::atomic<long long> due_{now_ns() + kNap};
  std::atomic<bool> ending_{false};
  std::thread thread_;  // last: it uses the others
};

}  // namespace tutti::test
