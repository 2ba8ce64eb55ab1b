#include "apps/bench/hop.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

namespace tutti::bench {

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

void pin_thread(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ::pthread_setaffinity_np(::pthread_self(), sizeof one, &one);
}

/// Two words, each written by one side only, on lines of their own.
struct Board {
  alignas(128) std::atomic<std::uint32_t> ping{0};
  alignas(128) std::atomic<std::uint32_t> pong{0};
};

/// Both give up at the deadline, which they look at rarely.
struct SpinWait {
  static bool until(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                    Clock::time_point deadline) {
    for (std::uint32_t spins = 1;; ++spins) {
      if (word.load(std::memory_order_acquire) == value) return true;  // partner: tell()
      if (spins % 8192 == 0 && Clock::now() >= deadline) return false;
    }
  }
  static void tell(std::atomic<std::uint32_t>& word, std::uint32_t value) {
    word.store(value, std::memory_order_release);  // partner: the acquire in until()
  }
};

struct FutexWait {
  static bool until(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                    Clock::time_point deadline) {
    for (;;) {
      const std::uint32_t seen = word.load();
      if (seen == value) return true;
      if (Clock::now() >= deadline) return false;
      const timespec slice{0, 10'000'000};
      ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, &slice, nullptr, 0);
    }
  }
  static void tell(std::atomic<std::uint32_t>& word, std::uint32_t value) {
    word.store(value);
    ::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
};

template <class Wait>
std::optional<Seconds> hop(CpuPair cpus, const HopOptions& options) {
  Board board;
  std::optional<Seconds> best;
  const auto deadline = Clock::now() + options.limit;
  const auto total =
      static_cast<std::uint32_t>(options.batches) * static_cast<std::uint32_t>(options.round_trips);
  std::thread answering([&] {
    pin_thread(cpus.second);
    for (std::uint32_t i = 1; i <= total && Wait::until(board.ping, i, deadline); ++i) {
      Wait::tell(board.pong, i);
    }
  });
  std::thread asking([&] {
    pin_thread(cpus.first);
    std::uint32_t next = 1;
    for (int batch = 0; batch < options.batches; ++batch) {
      const auto begin = Clock::now();
      for (int i = 0; i < options.round_trips; ++i, ++next) {
        Wait::tell(board.ping, next);
        if (!Wait::until(board.pong, next, deadline)) return;
      }
      const Seconds one_way = Seconds(Clock::now() - begin) / (2 * options.round_trips);
      if (!best || one_way < *best) best = one_way;
    }
  });
  asking.join();
  answering.join();
  return best;
}

}  // namespace

std::vector<int> usable_cpus() {
  std::vector<int> cpus;
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return {0};
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<CpuPair> first_cpu_pair() {
  const auto cpus = usable_cpus();
  if (cpus.size() < 2) return std::nullopt;
  return CpuPair{cpus[0], cpus[1]};
}

std::optional<Seconds> spin_hop(CpuPair cpus, const HopOptions& options) {
  return hop<SpinWait>(cpus, options);
}

std::optional<Seconds> futex_hop(CpuPair cpus, const HopOptions& options) {
  return hop<FutexWait>(cpus, options);
}

double copy_bandwidth(CpuPair cpus, std::size_t bytes, int repetitions) {
  std::atomic<int> ready{0};
  const auto copy = [&](int cpu, Seconds& took) {
    pin_thread(cpu);
    std::vector<char> from(bytes, 1);
    std::vector<char> to(bytes, 2);
    ++ready;
    while (ready < 2) std::this_thread::yield();
    const auto begin = Clock::now();
    for (int i = 0; i < repetitions; ++i) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");  // each copy counts
    }
    took = Clock::now() - begin;
  };
  Seconds first{};
  Seconds second{};
  std::thread other([&] { copy(cpus.second, second); });
  std::thread one([&] { copy(cpus.first, first); });
  one.join();
  other.join();
  return 2.0 * static_cast<double>(bytes) * repetitions / std::max(first, second).count();
}

}  // namespace tutti::bench
