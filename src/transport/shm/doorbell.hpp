#pragma once

#include "os/futex.hpp"
#include "transport/region.hpp"
#include "transport/shm/park.hpp"

// Wakes a rank of this host that sleeps.
namespace tutti::transport::shm {

/// Wakes the thread that sleeps for this rank.
void wake(const RegionPeer& peer) noexcept;

/// Call after a publication: wakes the peer if it sleeps.
inline void wake_if_parked(const RegionPeer& peer) noexcept {
  if (is_parked(peer.words().park)) [[unlikely]]
    wake(peer);
}

/// Call between a publication and wake_if_parked; `needed`: sleepers cannot fence for us.
inline void fence_if_needed(bool needed) noexcept { fence_publication<os::Fences>(needed); }

}  // namespace tutti::transport::shm
