#pragma once

#include <sys/socket.h>

#include "os/fd.hpp"

namespace tutti::os {

/// The type of every stream socket of ours: non-blocking, and closed on exec.
inline constexpr int kStreamType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

/// A stream socket that no forked child of ours has (`keep_private`); invalid: see errno.
[[nodiscard]] Fd private_socket(int family) noexcept;

}  // namespace tutti::os
