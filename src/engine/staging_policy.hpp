#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "transport/region.hpp"
#include "transport/shm/cache_distance.hpp"

namespace tutti::engine {

/// A sample that an operation takes to learn how dear handing memory over is, once.
enum class Sample : std::uint8_t { none, line, staged };

/// How an operation stages its bytes, and what it looks at.
struct StagingMode {
  bool past_cache = false;  ///< what is staged goes around the cache
  Sample sample = Sample::none;
};

/// Decides how bytes are handed over in shared memory: in the writer's cache or past it, from
/// samples of how long others' memory takes (CacheDistance). It changes how bytes are stored, never
/// which.
class StagingPolicy {
 public:
  using CacheDistance = transport::shm::CacheDistance;
  // Thresholds. Of fewer bytes no sample can be taken, and no choice is worth its time:
  static constexpr std::size_t kLeastBytes = CacheDistance::kLeastBytes;
  // Stores past the cache and copies in runs pay from here on; so does a clock at every operation:
  static constexpr std::size_t kLargeBytes = CacheDistance::kLargeBytes;

  /// `regions`: tells the other ranks of the host what was learned, and knows what they have.
  /// `cpus`: of the host.
  StagingPolicy(const transport::Regions& regions, int cpus) noexcept
      : regions_(regions), crowded_(is_crowded(regions, cpus)), distance_(crowded_) {}

  /// For operation `seq` of its group, of which each rank stages so many bytes.
  [[nodiscard]] StagingMode choose(std::size_t bytes, std::uint64_t seq) noexcept {
    return bytes < kLeastBytes ? StagingMode{} : choose_for_many(bytes, seq);
  }
  /// The rank at whose memory operation `seq` may look. Another rank each time, for those that
  /// sample every operation and for those that rarely do.
  [[nodiscard]] static int sampled_rank(std::uint64_t seq, int rank, int size) noexcept {
    const auto others = static_cast<std::uint64_t>(size - 1);
    const std::uint64_t turn =
        seq / CacheDistance::kSampleEvery + seq % CacheDistance::kSampleEvery;
    return static_cast<int>((static_cast<std::uint64_t>(rank) + 1 + turn % others) % (others + 1));
  }
  /// Is a sample of so many staged bytes worth a look at the clock?
  [[nodiscard]] static bool is_worth_a_clock(std::size_t bytes, std::uint64_t seq) noexcept {
    return bytes >= kLargeBytes || seq % CacheDistance::kSampleEvery == 0;
  }
  /// It took so long to read a line that another rank has written last.
  void learn(std::chrono::nanoseconds took) noexcept {
    distance_.add(took, regions_.header().remote_cache);
  }
  /// Reading others' memory is dear, by what was learned here.
  [[nodiscard]] bool remote() const noexcept { return distance_.remote(); }

 private:
  /// More ranks on our host than CPUs.
  [[nodiscard]] static bool is_crowded(const transport::Regions& regions, int cpus) noexcept {
    return regions.peers.size() > static_cast<std::size_t>(cpus);
  }
  [[nodiscard]] StagingMode choose_for_many(std::size_t bytes, std::uint64_t seq) noexcept;

  const transport::Regions& regions_;
  bool crowded_;
  CacheDistance distance_;      ///< what samples of what others wrote have taught
  bool others_remote_ = false;  ///< one of our host says so
};

}  // namespace tutti::engine
