#pragma once

#include <sys/epoll.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "os/socket.hpp"

namespace tutti::os {

/// Waits for many descriptors at once and calls back. All of it belongs to one thread, except
/// `wake`.
class EventLoop {
 public:
  /// Called with the EPOLL... bits that are there.
  using Callback = std::function<void(std::uint32_t events)>;

  static Result<std::unique_ptr<EventLoop>> create();

  /// Watches `fd` (not owned) for `events` (EPOLLIN, EPOLLOUT ...), level-triggered.
  Outcome add(int fd, std::uint32_t events, Callback callback);
  /// Changes what is watched for.
  Outcome modify(int fd, std::uint32_t events);
  /// Forgets `fd`; call it before closing. Its callback is not called again, not even for an event
  /// already fetched. May be called from any callback, its own included.
  void remove(int fd) noexcept;

  /// Waits until something happens, `wake` is called or the deadline passes (none: for ever), and
  /// calls what is ready. A pending `wake` is consumed.
  Outcome run_once(std::optional<Deadline> deadline);
  /// Ends the current or next `run_once`. From any thread; safe in a signal handler.
  void wake() noexcept;

 private:
  struct Watch {
    std::uint32_t generation = 0;
    std::shared_ptr<Callback> callback;
  };

  EventLoop(Fd epoll, Fd wake) noexcept : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  Fd epoll_;
  Fd wake_;
  // A number closed and given out again between two events must not be taken for its predecessor.
  std::uint32_t next_generation_ = 1;
  std::unordered_map<int, Watch> watches_;
};

}  // namespace tutti::os
