#include "transport/shm/doorbell.hpp"

#include <unistd.h>

#include <climits>

#include "os/futex.hpp"

namespace tutti::transport::shm {

void wake(const RegionPeer& peer) noexcept {
  // acq_rel: pairs with the sleeper's store of the word, so that one of many publishers pays.
  const Park was = state_of(
      peer.page->park.exchange(static_cast<std::uint32_t>(Park::awake), std::memory_order_acq_rel));
  if (was == Park::futex) {
    os::futex_wake(peer.page->park, INT_MAX, true);
  } else if (was == Park::eventfd && peer.eventfd >= 0) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(peer.eventfd, &one, sizeof(one));
  }
}

}  // namespace tutti::transport::shm
