#include "transport/tcp/stream_socket.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "os/socket.hpp"

namespace tutti::transport {
namespace {

// An abort waits for at most this many bytes that the kernel has not sent yet.
constexpr int kUnsentLimit = 256 * 1024;

}  // namespace

void tune_stream(int fd, const os::Address& peer, std::chrono::milliseconds link_timeout) noexcept {
  // Each of these only makes it faster or dies later: a kernel that refuses one may.
  static_cast<void>(os::set_no_delay(fd));
  static_cast<void>(os::set_keep_alive(fd, link_timeout));
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentLimit, sizeof kUnsentLimit);
  if (peer.is_loopback()) {
    // bbr paces: half the speed of reno on loopback, where nothing is ever congested.
    constexpr char kReno[] = "reno";
    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno, sizeof kReno - 1);
  }
}

void reset_when_closed(int fd) noexcept {
  constexpr linger kNow{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &kNow, sizeof kNow);
}

std::size_t unacknowledged(int fd) noexcept {
  int bytes = 0;
  if (ioctl(fd, SIOCOUTQ, &bytes) != 0) return 0;
  return static_cast<std::size_t>(std::max(bytes, 0));
}

bool is_under_way(int fd) noexcept {
  int not_sent = 0;
  if (ioctl(fd, SIOCOUTQNSD, &not_sent) != 0) return false;
  return unacknowledged(fd) > static_cast<std::size_t>(std::max(not_sent, 0));
}

}  // namespace tutti::transport
