#include "transport/shm/doorbell.hpp"

#include <unistd.h>

#include <climits>

#include "os/futex.hpp"

namespace tutti::transport::shm {

void wake(const RegionPeer& peer) noexcept {
  const Park was = end_sleep(peer.control.words().park);
  if (was == Park::futex) {
    os::futex_wake(peer.control.words().park, INT_MAX, true);
  } else if (was == Park::eventfd && peer.eventfd >= 0) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(peer.eventfd, &one, sizeof(one));
  }
}

}  // namespace tutti::transport::shm
