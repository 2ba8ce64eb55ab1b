#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "backend/native/driver.hpp"
#include "os/cpu.hpp"
#include "transport/shm/host.hpp"

namespace tutti::native {

/// How often liveness and deadlines are looked at.
inline constexpr auto kLookEvery = std::chrono::milliseconds(20);
/// The same for a wait that has lasted for kLong: it costs a tenth of a per cent of a CPU.
inline constexpr auto kLookRarely = std::chrono::milliseconds(100);
inline constexpr auto kLong = std::chrono::seconds(1);

/// How one wait spends its time: spins, yields, then says that it is time to park.
class Driver::Pause {
 public:
  static constexpr int kSpinsPerLook = 512;   ///< passes between two looks at the clock, 20-50 us
  static constexpr int kMovesPerLook = 1024;  ///< the same while something moves all the time
  static constexpr int kYieldsPerLook = 32;   ///< the same with a yield (0.3-1 us) in each pass
  static constexpr auto kParkAfter = std::chrono::microseconds(750);  ///< without progress
  /// So many moves end the rest of a wait that has lasted for kLong. A ping makes fewer.
  static constexpr int kMovesOfFlow = 16;
  static constexpr int kPenalty = 64;  ///< waits that yield, after one was pushed off its CPU

  /// `vain_since`: the last wait for the same operation was in vain, and the first of these began
  /// then; this one sleeps at its first look.
  Pause(Driver& driver, std::optional<std::chrono::nanoseconds> limit,
        std::optional<engine::TimePoint> vain_since) noexcept
      : driver_(driver),
        waited_in_vain_(vain_since.has_value()),
        waits_since_(vain_since.value_or(engine::TimePoint{})),
        yields_(driver.options_.ranks_on_host > driver.options_.cpus || driver.spin_penalty_ > 0),
        oversubscribed_(yields_ && driver.contention_.oversubscribed()),
        limit_(limit) {}

  enum class Next { again, look };
  Next moved() noexcept {
    idle_ = 0;
    waited_in_vain_ = false;
    if (moves_ - moves_at_rest_ >= kMovesOfFlow) rests_ = false;
    give_way();
    return ++moves_ % kMovesPerLook == 0 ? Next::look : Next::again;
  }

  Next idle() noexcept {
    ++idle_;
    if (give_way()) {
    } else if (rests_) {
      return Next::look;
    } else if (yields_) {
      if (oversubscribed_ || !yield()) return Next::look;
    } else {
      os::relax();
    }
    const bool looks = yields_ ? idle_ % kYieldsPerLook == 0 : idle_ % kSpinsPerLook == 0;
    return looks ? Next::look : Next::again;
  }

  /// Notes the time. True if the limit has passed.
  bool expired(engine::TimePoint now) noexcept {
    if (first_look_ == engine::TimePoint{}) {
      first_look_ = now;
      if (waits_since_ == engine::TimePoint{}) waits_since_ = now;
      switches_ = os::involuntary_switches();
    }
    if (idle_ <= (yields_ ? kYieldsPerLook : kSpinsPerLook)) idle_since_ = now;
    if (!yields_) {
      const std::int64_t switches = os::involuntary_switches();
      if (switches - switches_ > 1) {  // we are pushed off the CPU: somebody else needs it
        yields_ = true;
        driver_.spin_penalty_ = kPenalty;
      }
    }
    return limit_ && now - first_look_ >= *limit_;
  }

  [[nodiscard]] bool time_to_park(engine::TimePoint now) const noexcept {
    return waited_in_vain_ || rests_ || oversubscribed_ || now - idle_since_ >= kParkAfter;
  }

  /// When the wait began, or the first of those in vain before it; known after its first look.
  [[nodiscard]] engine::TimePoint waits_since() const noexcept { return waits_since_; }

  [[nodiscard]] std::chrono::nanoseconds left(engine::TimePoint now) noexcept {
    // An operation that others have started meanwhile may need us.
    if (std::exchange(driver_.submits_seen_, driver_.submits_) != driver_.submits_)
      driver_.quiet_since_ = now;
    rests_ = now - std::max(waits_since_, driver_.quiet_since_) >= kLong;
    moves_at_rest_ = moves_;
    std::chrono::nanoseconds most = rests_ ? kLookRarely : kLookEvery;
    const engine::TimePoint deadline = driver_.engine_.next_deadline();
    // Without a deadline: the time of the operation begins at the next look.
    if (deadline != engine::TimePoint::max())
      most = std::min(driver_.rarely_ * most, std::chrono::nanoseconds(deadline - now));
    if (limit_) most = std::min(most, *limit_ - (now - first_look_));
    return std::max(most, std::chrono::nanoseconds(0));
  }

 private:
  bool give_way() noexcept {
    if (!driver_.driver_lock_.wanted()) return false;
    driver_.driver_lock_.unlock();
    ::sched_yield();
    driver_.driver_lock_.lock();
    return true;
  }

  /// False: other processes have had the CPU meanwhile.
  bool yield() noexcept {
    // Time slices end at the timer's ticks, at which this clock goes on. It is read in some 16 ns.
    const std::chrono::nanoseconds before = os::time_of_last_tick();
    ::sched_yield();
    if (os::time_of_last_tick() == before) return true;
    oversubscribed_ = driver_.contention_.after_long_yield(driver_.engine_.world().now());
    return !oversubscribed_;
  }

  Driver& driver_;
  int moves_ = 0;
  int moves_at_rest_ = 0;
  bool rests_ = false;  ///< what wakes it is mostly a ping, so it sleeps again at once
  bool waited_in_vain_;
  engine::TimePoint waits_since_;
  bool yields_;
  bool oversubscribed_;  ///< others need the CPU: yields would give it to them for long
  int idle_ = 0;
  std::int64_t switches_ = 0;
  std::optional<std::chrono::nanoseconds> limit_;
  engine::TimePoint first_look_{};
  engine::TimePoint idle_since_{};
};

}  // namespace tutti::native
