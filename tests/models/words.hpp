#pragma once

#include <climits>
#include <cstdint>

#include "backend/native/driver_lock.hpp"
#include "models/checker.hpp"
#include "transport/shm/park.hpp"
#include "transport/shm/words.hpp"

// The shared memory of the models: the names are those of transport/shm/layout.hpp, so that the
// library's code runs on it, but the words are the checker's, and there are as few as possible.
namespace tutti::models {

namespace shm = transport::shm;

struct Line {
  Atomic<std::uint64_t> epoch{0};
  Plain<std::uint64_t> fingerprint{0};
  Plain<std::uint64_t> payload{0};
};

struct Counter {
  Atomic<std::uint64_t> value{0};
};

struct Note {
  Plain<std::uint32_t> length{0};
};

struct Block {
  Line lines[1];
  Counter counters[1][1];
  Counter done;
  Note note;
};

struct RankWords {
  Atomic<std::uint32_t> park{0};
  Atomic<std::uint32_t> breaks{0};
  Atomic<std::uint64_t> break_word;
};

struct RingCounters {
  Atomic<std::uint64_t> taken{0};
  Atomic<std::uint64_t> written{0};
  Atomic<std::uint64_t> shorts_taken{0};
};

struct ShortMessage {
  Atomic<std::uint32_t> count{0};
  Plain<std::uint64_t> after;
  Plain<std::uint64_t> data;
};

struct Fences {
  static void full(At at = At::current()) { fence(Order::seq_cst, at); }
  static void all_threads(At at = At::current()) { membarrier(at); }
};

struct LockParts {
  using Word = Atomic<std::uint32_t>;
  static void wait(Word& word, std::uint32_t expected, std::chrono::nanoseconds /*most*/) {
    word.word().futex_wait(expected);  // without a limit: a wake that is missed is an error
  }
  static void wake_one(Word& word) { word.word().futex_wake(1); }
  [[nodiscard]] static std::uint32_t this_thread() {
    return std::uint32_t(models::this_thread()) + 1;
  }
};

using DriverLock = native::BasicDriverLock<LockParts>;

/// As shm::wake, which has a system call for each state. An eventfd stays readable until it
/// is read.
inline void wake(Atomic<std::uint32_t>& park, Atomic<std::uint32_t>& eventfd) {
  switch (shm::end_sleep(park)) {
    case shm::Park::futex: return park.word().futex_wake(INT_MAX);
    case shm::Park::eventfd: return eventfd.store(1, Order::relaxed);
    default: return;
  }
}

}  // namespace tutti::models
