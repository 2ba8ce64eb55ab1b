#pragma once

#include <span>
#include <vector>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "os/socket.hpp"

namespace tutti::os {

/// Descriptors for others to watch: each becomes readable or hangs up (POLLIN or POLLHUP) when this
/// process has ended, and never before.
struct DeathPipe {
  /// A pidfd: of the process itself, whatever it has handed on. It survives exec. Where a kernel or
  /// a sandbox refuses pidfds, a copy of `pipe`.
  Fd process;
  /// A pipe whose other end this process alone holds: exec closes it, and so does what it forks.
  Fd pipe;
};
[[nodiscard]] Result<DeathPipe> open_death_pipe();

/// The death pipes of several processes as two descriptors, which can be handed to any number of
/// others: each sees every end, whichever of them has ended before.
struct DeathSet {
  Fd ends;  ///< an epoll instance
  /// A socket that holds the pipes in its queue. While anybody has it, they stay in `ends`.
  Fd kept;

  [[nodiscard]] static Result<DeathSet> of(std::span<const DeathPipe* const> pipes,
                                           Deadline deadline);
  /// Adds the indexes of processes that have ended, some of them twice. One system call; where many
  /// have ended, the next call tells others.
  void add_ended(std::vector<int>& indexes) const noexcept;
};

}  // namespace tutti::os
