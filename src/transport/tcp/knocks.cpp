#include "transport/tcp/knocks.hpp"

#include <poll.h>

#include <utility>

#include "os/socket.hpp"

namespace tutti::transport {
namespace {

constexpr auto kKnockAgain = std::chrono::milliseconds(200);
// After the last one. All together must leave time to tell within a second.
constexpr auto kLastAnswer = std::chrono::milliseconds(400);

/// Connected, or refused.
bool is_answered(int fd) noexcept {
  pollfd entry{fd, POLLOUT, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace

void Knocks::begin(TimePoint now) noexcept {
  end();
  begun_ = last_ = now;
}

void Knocks::end() noexcept {
  for (os::Fd& fd : further_) fd.reset();
  answered_.reset();
  count_ = 0;
}

Knocks::Verdict Knocks::look(int first, const os::Address& address, TimePoint now) {
  if (is_answered(first)) return Verdict::waiting;  // epoll tells of it
  for (os::Fd& fd : further_) {
    if (!fd.valid() || !is_answered(fd.get())) continue;
    answered_ = std::move(fd);
    return Verdict::answered;
  }
  if (count_ == kMost) return now - last_ < kLastAnswer ? Verdict::waiting : Verdict::dead;
  if (now - last_ < kKnockAgain) return Verdict::waiting;
  // By the time of the last one and not of the first: we may have been stopped meanwhile.
  last_ = now;
  if (auto fd = os::start_connect(address)) further_[count_] = std::move(*fd);
  ++count_;
  return Verdict::waiting;
}

}  // namespace tutti::transport
