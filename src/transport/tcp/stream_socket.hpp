#pragma once

#include <chrono>
#include <cstddef>
#include <string_view>

// The socket options of our connections.
namespace tutti::transport {

/// No delay for small frames, a short unsent queue, keep-alive (os::set_keep_alive).
void tune_stream(int fd, std::chrono::milliseconds link_timeout) noexcept;

/// bbr sends no faster than the peer has acknowledged before. On a short path that is how fast the
/// ranks took turns and shared their cores with the network's work, and not what the path carries.
[[nodiscard]] bool paces_too_slowly(std::string_view control,
                                    std::chrono::microseconds round_trip) noexcept;
/// Takes another congestion control than the system's if that paces_too_slowly. Call it when some
/// bytes have gone both ways, so that the round trip is known.
void choose_congestion_control(int fd) noexcept;

/// Makes close() send a reset at once. Otherwise the end of the stream would wait for bytes that
/// are not acknowledged. A peer that we hear nothing from may still hear us.
void reset_when_closed(int fd) noexcept;

/// Bytes that the peer's kernel has not acknowledged; 0 if that cannot be told.
[[nodiscard]] std::size_t unacknowledged(int fd) noexcept;
/// Some of them have been sent: the peer's host is silent, or answers in a moment. False, too, if
/// the peer has no room for more.
[[nodiscard]] bool is_under_way(int fd) noexcept;

}  // namespace tutti::transport
