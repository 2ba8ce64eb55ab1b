#pragma once

#include <atomic>

#include "transport/region.hpp"

// Wakes a rank of this host that sleeps.
namespace tutti::transport::shm {

/// Wakes the thread that sleeps for this rank: the slow half of `ring`.
void wake(const RegionPeer& peer) noexcept;

/// Call after a publication: wakes the peer if it sleeps. Costs one load if nobody sleeps. We need
/// no fence between our store and this load, because the sleeper issues a membarrier.
inline void wake_if_parked(const RegionPeer& peer) noexcept {
  // The sleeper's membarrier orders what our CPU does; the compiler must not move the load before
  // the publication either. relaxed: pairs with Driver::park.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (peer.page->park.load(std::memory_order_relaxed) != 0) [[unlikely]]
    wake(peer);
}

}  // namespace tutti::transport::shm
