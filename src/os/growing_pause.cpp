#include "os/growing_pause.hpp"

#include <unistd.h>

#include <algorithm>
#include <random>

namespace tutti::os {

std::chrono::milliseconds GrowingPause::next() noexcept {
  using std::chrono::milliseconds;
  constexpr milliseconds kLongest{200};
  // Not random_device, which may throw; the clock and the process id tell processes apart.
  thread_local std::minstd_rand random(static_cast<unsigned>(
      std::chrono::steady_clock::now().time_since_epoch().count() ^ (::getpid() * 7919L)));
  const auto most = static_cast<unsigned>(mean_.count());
  const milliseconds pause = mean_ * 3 / 4 + milliseconds(random() % (most / 2 + 1));
  mean_ = std::min(mean_ * 2, kLongest);
  return pause;
}

}  // namespace tutti::os
