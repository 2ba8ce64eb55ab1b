#include "engine/staging_policy.hpp"

#include <algorithm>
#include <atomic>

namespace tutti::engine {

StagingMode StagingPolicy::choose_for_many(std::size_t bytes, std::uint64_t seq) noexcept {
  const bool looks = is_worth_a_clock(bytes, seq);
  if (looks) {
    // relaxed: a hint.
    others_remote_ = std::ranges::any_of(regions_.peers, [](const auto& peer) {
      return peer.arena != nullptr &&
             peer.words().remote_cache.load(std::memory_order_relaxed) != 0;
    });
  }
  const bool far = distance_.remote() || others_remote_;
  // With more ranks than CPUs a peer's staging may have left its cache before we read it. Its line
  // has not, if it is there at the first look. And it can be sampled in both modes.
  if (crowded_) return {far, looks ? Sample::line : Sample::none};
  const bool past_cache = far && seq % CacheDistance::kProbeEvery != 0;
  return {past_cache, past_cache ? Sample::none : Sample::staged};
}

}  // namespace tutti::engine
