#include "os/stall_watch.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

namespace tutti::os {
namespace {

using std::chrono::milliseconds;

// One packet may be lost on the way to a peer that lives.
constexpr unsigned kDeadQuestions = 2;
// The kernel counts in steps of up to 10 ms.
constexpr milliseconds kKernelStep{20};

}  // namespace

StallWatch::Verdict StallWatch::look(int fd, TimePoint now, milliseconds limit) noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return Verdict::idle;
  if (info.tcpi_unacked == 0 && info.tcpi_notsent_bytes == 0) {
    stuck_ = false;
    return Verdict::idle;
  }
  const milliseconds answered(info.tcpi_last_ack_recv);
  const bool acked = !stuck_ || info.tcpi_bytes_acked != acked_;
  if (acked || now - answered > heard_ + kKernelStep) {
    heard_ = now - answered;
    repeated_ = info.tcpi_total_retrans;
  }
  // tcpi_retransmits leaves out the first that the kernel sends of a flight's tail (TLP), 200 ms
  // before.
  const unsigned questions = (info.tcpi_total_retrans - repeated_) + info.tcpi_probes;
  if (questions > 0 && !asked_) asked_since_ = now;
  asked_ = questions > 0;
  if (acked) {
    stuck_ = true;
    acked_ = info.tcpi_bytes_acked;
    since_ = now;
    return Verdict::waiting;
  }
  silence_ = std::min(answered, std::chrono::ceil<milliseconds>(now - since_));
  // Nothing asks a peer with a closed window for minutes, so only the time since an unanswered
  // question counts there: the kernel of a stopped process answers each.
  const bool closed = info.tcpi_snd_wnd == 0 || info.tcpi_unacked == 0;
  if (closed)
    silence_ = std::min(silence_, asked_ ? std::chrono::ceil<milliseconds>(now - asked_since_)
                                         : milliseconds::zero());
  if (silence_ < limit || questions < kDeadQuestions) return Verdict::waiting;
  return Verdict::dead;
}

}  // namespace tutti::os
