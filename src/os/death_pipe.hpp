#pragma once

#include <tutti/error.hpp>

#include "os/fd.hpp"

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

}  // namespace tutti::os
