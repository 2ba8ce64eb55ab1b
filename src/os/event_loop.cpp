#include "os/event_loop.hpp"

#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "os/system_error.hpp"

namespace tutti::os {
namespace {

constexpr std::size_t kMaxEventsPerWait = 64;

std::uint64_t tag_of(int fd, std::uint32_t generation) noexcept {
  return (static_cast<std::uint64_t>(generation) << 32) | static_cast<std::uint32_t>(fd);
}

int milliseconds_until(std::optional<Deadline> deadline) noexcept {
  if (!deadline) return -1;
  const auto left = *deadline - std::chrono::steady_clock::now();
  if (left <= left.zero()) return 0;
  // Rounded up: waking early would turn the last millisecond into a busy loop.
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return rounded > INT_MAX ? INT_MAX : static_cast<int>(rounded);
}

}  // namespace

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error("cannot make an event loop", errno);
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return system_error("cannot make an event loop", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = tag_of(wake.get(), 0);
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0)
    return system_error("cannot make an event loop", errno);
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wake)));
}

Outcome EventLoop::add(int fd, std::uint32_t events, Callback callback) {
  const std::uint32_t generation = next_generation_++;
  if (next_generation_ == 0) next_generation_ = 1;  // 0 is the wake descriptor's
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag_of(fd, generation);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return system_error("cannot watch a descriptor", errno);
  watches_[fd] = Watch{generation, std::make_shared<Callback>(std::move(callback))};
  return {};
}

Outcome EventLoop::modify(int fd, std::uint32_t events) {
  const auto watch = watches_.find(fd);
  if (watch == watches_.end())
    return Outcome(Errc::internal, "cannot change the watch of a descriptor that is not watched");
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag_of(fd, watch->second.generation);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) != 0)
    return system_error("cannot change the watch of a descriptor", errno);
  return {};
}

void EventLoop::remove(int fd) noexcept {
  if (watches_.erase(fd) > 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Outcome EventLoop::run_once(std::optional<Deadline> deadline) {
  std::array<epoll_event, kMaxEventsPerWait> events;
  const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                               milliseconds_until(deadline));
  if (count < 0)
    return errno == EINTR ? Outcome() : system_error("cannot wait for descriptors", errno);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    const std::uint64_t tag = event.data.u64;
    const int fd = static_cast<int>(tag & 0xffffffffU);
    const std::uint32_t generation = static_cast<std::uint32_t>(tag >> 32);
    if (generation == 0) {
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
      continue;
    }
    const auto watch = watches_.find(fd);
    if (watch == watches_.end() || watch->second.generation != generation) continue;
    // Held here: the callback may remove itself.
    const std::shared_ptr<Callback> callback = watch->second.callback;
    (*callback)(event.events);
  }
  return {};
}

void EventLoop::wake() noexcept {
  // Fails only when the counter is full, and then the loop is awake anyway.
  eventfd_write(wake_.get(), 1);
}

}  // namespace tutti::os
