#pragma once

#include <sys/types.h>

#include <tutti/error.hpp>

#include "os/fd.hpp"

namespace tutti::launcher {

/// A small process that outlives us when we are killed, and then ends every worker's process group:
/// the kernel's own parent-death signal reaches direct children only.
///
/// It reads process ids (and, negative, those to forget) from a pipe whose other end only we (and
/// workers about to start) hold; if the pipe ends without a message, tuttirun was killed.
class Reaper {
 public:
  /// Call it before any thread is started.
  static Result<Reaper> start();
  Reaper(Reaper&&) = default;
  Reaper& operator=(Reaper&&) = delete;
  /// Tells the reaper to end without ending any process.
  ~Reaper();

  /// Where a worker announces itself: its process id, which is its process group's.
  [[nodiscard]] int announce_fd() const noexcept { return pipe_.get(); }
  /// The process group has ended and its number may soon be somebody else's.
  void forget(pid_t group) const noexcept;

 private:
  Reaper(pid_t pid, os::Fd pipe) noexcept : pid_(pid), pipe_(std::move(pipe)) {}

  pid_t pid_ = 0;
  os::Fd pipe_;
};

}  // namespace tutti::launcher
