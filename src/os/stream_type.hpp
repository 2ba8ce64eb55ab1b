#pragma once

#include <sys/socket.h>

namespace tutti::os {

/// What every stream socket of ours is: never waited for inside a call, never inherited.
inline constexpr int kStreamType = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

}  // namespace tutti::os
