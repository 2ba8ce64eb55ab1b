#pragma once

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "os/cpu.hpp"

namespace tutti::transport::shm {

/// Measures how long it takes to read memory from another core's cache: samples the time of one
/// line that a peer has written last. If the cores share no cache (remote), data are better staged
/// with non-temporal stores. Only the writer can do that, so a reader publishes what it has
/// measured. A virtual machine's host may move its CPUs at any time.
class CacheDistance {
 public:
  /// A sample needs at least this many bytes that a peer has written.
  static constexpr std::size_t kLeastBytes = 4096;
  /// From this size on the clock of a sample (24 ns) costs next to nothing, so every operation may
  /// sample; of smaller ones one in kSampleEvery.
  static constexpr std::size_t kLargeBytes = 16 * 1024;
  static constexpr std::uint64_t kSampleEvery = 16;
  /// While remote, one operation in this many stages in the cache, to measure again.
  static constexpr std::uint64_t kProbeEvery = 32;

  /// `mixed`: some of the sampled peers may share our core, as with more ranks than cores. Then
  /// half of the samples are fast even if the caches are remote. Otherwise nearly all are slow if
  /// the caches are remote, and a few slow ones mean only that a shared cache is busy.
  explicit CacheDistance(bool mixed) noexcept : many_(mixed ? 4 : 6), few_(mixed ? 1 : 3) {}

  /// `took`: from read_one_line. `published`: the other ranks read remote() there; a hint.
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
    (void)now();  // brings the clock's own memory into the cache
    os::finish_reads();
    const auto begin = now();
    (void)*line;
    os::finish_reads();
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
