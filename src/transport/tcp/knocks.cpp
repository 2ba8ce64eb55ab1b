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

void Knocks::begin(TimePoint now, std::uint16_t closed_port) noexcept {
  end();
  begun_ = last_ = now;
  closed_port_ = closed_port;
}

void Knocks::end() noexcept {
  for (os::Fd& fd : further_) fd.reset();
  for (os::Fd& fd : tries_) fd.reset();
  answered_.reset();
  count_ = tried_ = 0;
  refused_at_once_ = host_answers_ = false;
}

/// What a router says for a host ("no route") is no answer of it.
bool Knocks::host_has_answered() noexcept {
  bool answered = std::exchange(refused_at_once_, false);
  for (os::Fd& fd : tries_) {
    if (!fd.valid() || !is_answered(fd.get())) continue;
    const Status result = os::connect_result(fd.get());
    answered = answered || result.ok() || result.code() == Errc::refused;
    fd.reset();
  }
  return answered;
}

void Knocks::try_closed_port(os::Address address) noexcept {
  address.set_port(closed_port_);
  auto fd = os::start_connect(address);
  if (fd)
    tries_[tried_] = std::move(*fd);
  else
    refused_at_once_ = fd.status().code() == Errc::refused;
  ++tried_;
}

Knocks::Verdict Knocks::look(int first, const os::Address& address, TimePoint now) {
  if (is_answered(first)) return Verdict::waiting;  // epoll tells of it
  for (os::Fd& fd : further_) {
    if (!fd.valid() || !is_answered(fd.get())) continue;
    answered_ = std::move(fd);
    return Verdict::answered;
  }
  if (host_has_answered()) {
    // All over again, but for the attempts to connect: the kernel repeats them.
    for (os::Fd& fd : tries_) fd.reset();
    tried_ = 0;
    host_answers_ = true;
    begun_ = last_ = now;
  }
  if (count_ == kMost && tried_ == kMost)
    return now - last_ < kLastAnswer ? Verdict::waiting : Verdict::dead;
  if (now - last_ < kKnockAgain) return Verdict::waiting;
  // By the time of the last one and not of the first: we may have been stopped meanwhile.
  last_ = now;
  if (tried_ < kMost) try_closed_port(address);
  if (count_ == kMost) return Verdict::waiting;
  if (auto fd = os::start_connect(address)) further_[count_] = std::move(*fd);
  ++count_;
  return Verdict::waiting;
}

}  // namespace tutti::transport
