#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tutti::transport::shm {

/// Measures how long it takes to read memory from another core's cache: samples the time of one
/// line that a peer has written last. If the cores share no cache (remote), data are better staged
/// with non-temporal stores. Only the writer can do that, so a reader publishes what it has
/// measured. A virtual machine's host may move its CPUs at any time.
class CacheDistance {
 public:
  /// A sample needs so many bytes that a peer has left in its cache.
  static constexpr std::size_t kLeastBytes = 4096;
  /// From here on the clock (24 ns) of a sample costs nothing; of smaller ones every so many do.
  static constexpr std::size_t kLargeBytes = 16 * 1024;
  static constexpr std::uint64_t kSampleEvery = 16;
  /// While remote, one in so many operations stages in the cache, to measure it again.
  static constexpr std::uint64_t kProbeEvery = 32;

  /// `mixed`: some of the peers that are sampled may share our core, as with more ranks than cores;
  /// then half of the samples are quick even if the caches are remote. Else nearly all are slow
  /// there, and some slow ones only say that the last cache is busy.
  explicit CacheDistance(bool mixed) noexcept : many_(mixed ? 4 : 6), few_(mixed ? 1 : 3) {}

  /// `took`: from read_one_line. `published`: where the other ranks read remote(); a hint.
  void add(std::chrono::nanoseconds took, std::atomic<std::uint32_t>& published) noexcept {
    const bool before = remote_;
    slow_ = static_cast<std::uint8_t>(slow_ << 1 | (took > kSlow ? 1 : 0));
    const int slow = std::popcount(slow_);
    remote_ = slow >= many_ || (remote_ && slow > few_);
    if (remote_ != before)
      published.store(remote_ ? 1 : 0, std::memory_order_relaxed);  // relaxed: a hint
  }
  [[nodiscard]] bool remote() const noexcept { return remote_; }

  /// Times the read of a line in the middle of a peer's data, by the clock `now`. Its page was
  /// touched before, so that no translation is measured.
  template <class Now>
  static std::chrono::nanoseconds read_one_line(const std::byte* written, std::size_t bytes,
                                                Now now) noexcept {
    const auto* const line = reinterpret_cast<const volatile unsigned char*>(written) + bytes / 2;
    // The same page, within `bytes`, and too far away for a prefetch.
    const bool upper_half = (reinterpret_cast<std::uintptr_t>(line) & kHalfPage) != 0;
    const auto* const other = upper_half ? line - kApart : line + kApart;
    (void)*other;
    (void)now();               // what the clock itself reads may have left the cache
    const auto begin = now();  // waits for what was read before
    (void)*line;
    return now() - begin;
  }

 private:
  static constexpr std::uintptr_t kHalfPage = 2048;
  static constexpr std::ptrdiff_t kApart = 2048 - 64;
  // Measured at rest, with 20-30 of the clock itself: 30-50 ns in a shared cache and 120-160 in a
  // remote one on Zen 4, 50-80 and 140-190 on Zen 3. A shared cache that is busy takes more than
  // 100 in a fifth of the samples.
  static constexpr std::chrono::nanoseconds kSlow{110};

  int many_;
  int few_;
  std::uint8_t slow_ = 0;  ///< of the last 8 samples
  bool remote_ = false;
};

}  // namespace tutti::transport::shm
