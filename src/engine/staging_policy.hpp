#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "transport/region.hpp"
#include "transport/shm/cache_distance.hpp"

namespace tutti::engine {

/// The sample that an operation takes, once, of the time to read memory that another rank wrote.
enum class Sample : std::uint8_t {
  none,
  line,    ///< reads the arrival line of another rank
  staged,  ///< reads a line of the bytes that another rank has staged
};

/// How an operation stages its bytes, and what it samples.
struct StagingMode {
  bool past_cache = false;  ///< stages with non-temporal stores
  Sample sample = Sample::none;
};

/// Decides whether a rank stages in its cache or past it, from samples of the time to read memory
/// that others wrote (CacheDistance). The choice has no effect on results.
class StagingPolicy {
 public:
  using CacheDistance = transport::shm::CacheDistance;
  /// With fewer staged bytes there is no sample and no choice: they would cost more than they save.
  static constexpr std::size_t kLeastBytes = CacheDistance::kLeastBytes;
  /// From this size on non-temporal stores and copies in runs are faster, and every operation may
  /// read the clock.
  static constexpr std::size_t kLargeBytes = CacheDistance::kLargeBytes;

  /// `regions`: where this rank publishes its result, and reads those of the other ranks of the
  /// host. `cpus`: of the host.
  StagingPolicy(const transport::Regions& regions, int cpus) noexcept
      : regions_(regions), crowded_(regions.is_crowded(cpus)), distance_(crowded_) {}

  /// The mode for operation `seq` of its group, in which each rank stages `bytes`.
  [[nodiscard]] StagingMode choose(std::size_t bytes, std::uint64_t seq) noexcept {
    return bytes < kLeastBytes ? StagingMode{} : choose_for_many(bytes, seq);
  }
  /// The rank whose memory operation `seq` may sample. It changes from sample to sample, both if
  /// every operation samples and if one in kSampleEvery does.
  [[nodiscard]] static int sampled_rank(std::uint64_t seq, int rank, int size) noexcept {
    const auto others = static_cast<std::uint64_t>(size - 1);
    const std::uint64_t turn =
        seq / CacheDistance::kSampleEvery + seq % CacheDistance::kSampleEvery;
    return static_cast<int>((static_cast<std::uint64_t>(rank) + 1 + turn % others) % (others + 1));
  }
  /// True if an operation with so many staged bytes may read the clock for a sample.
  [[nodiscard]] static bool is_worth_a_clock(std::size_t bytes, std::uint64_t seq) noexcept {
    return bytes >= kLargeBytes || seq % CacheDistance::kSampleEvery == 0;
  }
  /// Adds a sample: the time to read a line that another rank has written last.
  void learn(std::chrono::nanoseconds took) noexcept {
    distance_.add(took, regions_.control().words().remote_cache);
  }
  /// True if, by the samples of this rank, it reads slowly what others have in their caches.
  [[nodiscard]] bool remote() const noexcept { return distance_.remote(); }

 private:
  [[nodiscard]] StagingMode choose_for_many(std::size_t bytes, std::uint64_t seq) noexcept;

  const transport::Regions& regions_;
  bool crowded_;
  CacheDistance distance_;      ///< the samples of this rank
  bool others_remote_ = false;  ///< another rank of our host has published that it reads slowly
};

}  // namespace tutti::engine
