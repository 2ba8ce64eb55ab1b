#pragma once

#include <cstdint>

namespace tutti::verify::sim {

/// Numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014). The same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  /// 0 .. bound-1; 0 for a bound of 0.
  std::uint64_t below(std::uint64_t bound) noexcept { return bound == 0 ? 0 : next() % bound; }
  /// first .. last, both included.
  std::int64_t between(std::int64_t first, std::int64_t last) noexcept {
    return first + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(last - first) + 1));
  }
  bool chance(int percent) noexcept { return below(100) < static_cast<std::uint64_t>(percent); }

 private:
  std::uint64_t state_;
};

}  // namespace tutti::verify::sim
