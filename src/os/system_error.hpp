#pragma once

#include <tutti/error.hpp>

#include <string_view>

namespace tutti::os {

/// A failed system call as a Outcome: "<what>: <text of the error number>", with the code that
/// belongs to the number (ECONNREFUSED is refused, EMFILE is resource, ECONNRESET is peer_lost
/// ...).
[[nodiscard]] Outcome system_error(std::string_view what, int error_number);

/// The usual reason why a thread cannot be started (EAGAIN), and what to do.
inline constexpr std::string_view kNoThreadHint =
    "this user, or its cgroup, has as many processes and threads as it may; allow more (ulimit -u, "
    "pids.max)";

}  // namespace tutti::os
