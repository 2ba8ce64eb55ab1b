#pragma once

#include <atomic>

#include "transport/region.hpp"

// How a rank that sleeps is woken by another of its host.
namespace tutti::transport::shm {

/// Wakes the thread that sleeps for this rank: the slow half of `ring`.
void wake(const RegionPeer& peer) noexcept;

/// After a publication: wakes the peer if it sleeps. Costs one load where nobody does. The
/// sleeper's membarrier makes the load see its park word although we have no fence behind our
/// store.
inline void ring(const RegionPeer& peer) noexcept {
  // The sleeper's membarrier orders what our CPU does; the compiler must not move the load before
  // the publication either. relaxed: pairs with Driver::park.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (peer.page->park.load(std::memory_order_relaxed) != 0) [[unlikely]]
    wake(peer);
}

}  // namespace tutti::transport::shm
