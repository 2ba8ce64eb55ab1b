#include "transport/tcp/stream_socket.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "os/socket.hpp"

namespace tutti::transport {
namespace {

// An abort waits for at most this many bytes that the kernel has not sent yet.
constexpr int kUnsentLimit = 256 * 1024;
// The round trip of a path within a data centre is shorter.
constexpr std::chrono::milliseconds kShortPath{1};

}  // namespace

void tune_stream(int fd, std::chrono::milliseconds link_timeout) noexcept {
  // Each of these only makes it faster or dies later: a kernel that refuses one may.
  static_cast<void>(os::set_no_delay(fd));
  static_cast<void>(os::set_keep_alive(fd, link_timeout));
  setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentLimit, sizeof kUnsentLimit);
}

bool paces_too_slowly(std::string_view control, std::chrono::microseconds round_trip) noexcept {
  return control.starts_with("bbr") && round_trip < kShortPath;
}

void choose_congestion_control(int fd) noexcept {
  std::array<char, 16> name{};  // TCP_CA_NAME_MAX
  socklen_t size = name.size() - 1;
  if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) return;
  tcp_info info{};
  size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  if (!paces_too_slowly(name.data(), std::chrono::microseconds(info.tcpi_min_rtt))) return;
  constexpr std::string_view kReno = "reno";  // every kernel has it, and lets everybody use it
  setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
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
