#include "transport/tcp/stream_socket.hpp"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "os/socket.hpp"

namespace tutti::transport {
namespace {

// An abort passes behind at most so many bytes that the kernel has not sent yet.
constexpr int kUnsentLimit = 256 * 1024;
constexpr auto kDeadAfter = std::chrono::milliseconds(650);
constexpr unsigned kDeadRetransmits = 2;
// Probes of a closed window one after the other, and how long the last of them may stay unanswered.
constexpr unsigned kDeadProbes = 2;
constexpr auto kProbeAnswer = std::chrono::milliseconds(250);
// The kernel counts in steps of up to 10 ms.
constexpr auto kKernelStep = std::chrono::milliseconds(20);

}  // namespace

void tune_stream(int fd, const os::Address& peer) noexcept {
  // Each of these only makes it faster or dies later: a kernel that refuses one may.
  static_cast<void>(os::set_no_delay(fd));
  static_cast<void>(os::set_keep_alive(fd));
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

StallWatch::Verdict StallWatch::look(int fd, TimePoint now) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return Verdict::idle;
  if (info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0) {
    stuck_ = false;
    return Verdict::idle;
  }
  const std::chrono::milliseconds answered(info.tcpi_last_ack_recv);
  const bool acked = !stuck_ || info.tcpi_bytes_acked != acked_;
  if (acked || now - answered > heard_ + kKernelStep) {
    heard_ = now - answered;
    repeated_ = info.tcpi_total_retrans;
  }
  const bool probed = info.tcpi_snd_wnd == 0 && info.tcpi_probes >= kDeadProbes;
  if (probed && !probed_) probed_since_ = now;
  probed_ = probed;
  if (acked) {
    stuck_ = true;
    acked_ = info.tcpi_bytes_acked;
    since_ = now;
    return Verdict::waiting;
  }
  silence_ = std::min(answered, std::chrono::ceil<std::chrono::milliseconds>(now - since_));
  if (silence_ < kDeadAfter) return Verdict::waiting;
  // A closed window is the sign of a peer that does not read; only unanswered probes tell more.
  // tcpi_retransmits leaves out the first that the kernel sends of a flight's tail (TLP), 200 ms
  // before.
  const bool dead = info.tcpi_snd_wnd == 0
                        ? probed && now - probed_since_ >= kProbeAnswer
                        : info.tcpi_total_retrans - repeated_ >= kDeadRetransmits;
  return dead ? Verdict::dead : Verdict::waiting;
}

}  // namespace tutti::transport
