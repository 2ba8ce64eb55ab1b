#pragma once

#include <sys/types.h>

#include <chrono>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "os/socket.hpp"

namespace tutti::os {

/// Watches for the end of another process of this pid namespace: by a pidfd or, where a kernel or a
/// sandbox refuses those, by asking. The parent must not collect the process meanwhile.
class DeathWatch {
 public:
  DeathWatch() noexcept = default;
  static DeathWatch of(pid_t process) noexcept;

  /// Becomes readable at the end of the process. -1: nothing does, so ask `ended` at each SIGCHLD
  /// of a child, or again after kAskAgain.
  [[nodiscard]] int fd() const noexcept { return pidfd_.get(); }
  /// True if it has ended, also while nobody has collected it.
  [[nodiscard]] bool ended() const noexcept;
  /// Waits until it has ended: true, or false at the deadline.
  [[nodiscard]] Result<bool> wait(Deadline deadline) const;

  static constexpr std::chrono::milliseconds kAskAgain{10};

 private:
  DeathWatch(pid_t process, Fd pidfd) noexcept : process_(process), pidfd_(std::move(pidfd)) {}

  pid_t process_ = 0;
  Fd pidfd_;
};

/// A descriptor that becomes readable when the process ends. The process must not have been
/// collected by its parent.
Result<Fd> open_pidfd(pid_t pid);

}  // namespace tutti::os
