#pragma once

#include <tutti/error.hpp>

#include "os/fd.hpp"

namespace tutti::os {

/// A descriptor for others to watch: it becomes readable or hangs up (POLLIN or POLLHUP) when this
/// process ends, and never before. A pidfd, or where a kernel or a sandbox refuses these, the end
/// of a pipe whose other end this process alone holds: what it forks closes it, and what it starts
/// does not inherit it (clone without the handlers of pthread_atfork would).
[[nodiscard]] Result<Fd> open_lifeline();

}  // namespace tutti::os
