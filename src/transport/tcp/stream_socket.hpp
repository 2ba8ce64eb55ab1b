#pragma once

#include <chrono>
#include <cstddef>

#include "os/address.hpp"

// The socket options of our connections.
namespace tutti::transport {

/// No delay for small frames, a short unsent queue, keep-alive (os::set_keep_alive), and on
/// loopback a congestion control that does not pace.
void tune_stream(int fd, const os::Address& peer, std::chrono::milliseconds link_timeout) noexcept;

/// Makes close() send a reset at once. Otherwise the end of the stream would wait for bytes that
/// are not acknowledged. A peer that we hear nothing from may still hear us.
void reset_when_closed(int fd) noexcept;

/// Bytes that the peer's kernel has not acknowledged; 0 if that cannot be told.
[[nodiscard]] std::size_t unacknowledged(int fd) noexcept;
/// Some of them have been sent: the peer's host is silent, or answers in a moment. False, too, if
/// the peer has no room for more.
[[nodiscard]] bool is_under_way(int fd) noexcept;

}  // namespace tutti::transport
