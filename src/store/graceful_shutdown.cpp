#include "store/graceful_shutdown.hpp"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <utility>

#include "base/log.hpp"
#include "store/wire.hpp"

namespace tutti::store {
namespace {

using Clock = std::chrono::steady_clock;

// A poll interval, because no event reports that the other host has acknowledged the last bytes.
constexpr std::chrono::milliseconds kLookAgain{2};
// Reads from one user before it is the others' turn.
constexpr std::size_t kDiscardsPerTurn = 16;

/// Announces the shutdown to one user, step by step.
class GracefulShutdown {
 public:
  explicit GracefulShutdown(ClosingConnection user) : user_(std::move(user)) {
    user_.out.push(encode_response({}, kGracefulShutdownId, Limits()));
  }

  /// Proceeds without waiting; false: it is finished.
  bool step() noexcept {
    if (!said_) {
      if (user_.out.flush(user_.stream).error != 0) return false;
      said_ = user_.out.empty() && user_.stream.unsent() == 0;
      // The end of the stream follows the announcement, although we still read.
      if (said_ && shutdown(user_.stream.fd(), SHUT_WR) != 0) return false;
    }
    std::array<std::byte, kReadBytes> forgotten;
    for (std::size_t i = 0; i < kDiscardsPerTurn; ++i) {
      const secure::Moved got = user_.stream.read_some(forgotten);
      if (got.ended || got.error != 0) return false;
      if (got.bytes == 0) return !said_ || unacknowledged();
    }
    return true;
  }
  [[nodiscard]] pollfd waits_for() const noexcept {
    return {user_.stream.fd(), static_cast<short>(said_ ? POLLIN : POLLIN | POLLOUT), 0};
  }

 private:
  /// True if the user's host has not acknowledged all bytes and the end of the stream.
  [[nodiscard]] bool unacknowledged() const noexcept {
    int bytes = 0;
    return ioctl(user_.stream.fd(), SIOCOUTQ, &bytes) == 0 && bytes > 0;
  }

  ClosingConnection user_;
  bool said_ = false;  ///< the kernel has taken the whole announcement
};

void part(std::vector<ClosingConnection> users, Clock::time_point deadline) {
  std::vector<GracefulShutdown> shutdowns;
  shutdowns.reserve(users.size());
  for (ClosingConnection& user : users) shutdowns.emplace_back(std::move(user));
  std::vector<pollfd> waiting;
  while (true) {
    std::erase_if(shutdowns, [](GracefulShutdown& shutdown) { return !shutdown.step(); });
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (shutdowns.empty() || left.count() <= 0) return;
    waiting.clear();
    for (const GracefulShutdown& shutdown : shutdowns) waiting.push_back(shutdown.waits_for());
    (void)poll(waiting.data(), waiting.size(),
               static_cast<int>(std::min(left, kLookAgain).count()));
  }
}

}  // namespace

void shut_down_gracefully(std::vector<ClosingConnection> users,
                          std::chrono::milliseconds at_most) noexcept {
  try {
    part(std::move(users), Clock::now() + at_most);
  } catch (const std::exception& error) {  // no memory: just close the connections
    base::log(base::Level::info, error.what());
  }
}

}  // namespace tutti::store
