#pragma once

#include <chrono>
#include <cstddef>

#include "os/address.hpp"

// The socket options of our connections.
namespace tutti::transport {

/// No delay for small frames, a short unsent queue, keep-alive (os::set_keep_alive), and on
/// loopback a congestion control that does not pace.
void tune_stream(int fd, const os::Address& peer, std::chrono::milliseconds link_timeout) noexcept;

/// From here on closing sends a reset at once, instead of an end of the stream behind what has not
/// arrived: a peer that we cannot hear any more may hear us.
void reset_when_closed(int fd) noexcept;

/// Bytes that the peer's kernel has not acknowledged; 0 if that cannot be told.
[[nodiscard]] std::size_t unacknowledged(int fd) noexcept;

}  // namespace tutti::transport
