#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>

#include "os/address.hpp"
#include "os/fd.hpp"

namespace tutti::os {

using Deadline = std::chrono::steady_clock::time_point;

// Every socket made here is non-blocking and closed on exec.

/// Listens on exactly this address; the unspecified one of either family means all addresses of
/// both (IPv4 alone where there is no IPv6). Port 0 picks a free one: see `local_address`. The
/// address can be listened on again as soon as the socket is closed.
Result<Fd> listen_tcp(const Address& address, int backlog = 1024);

/// Whether `not_bound`, the failure of a socket to get an address, says that another program has
/// the port. Its code, resource, is that of limits, too.
[[nodiscard]] bool is_port_in_use(const Outcome& not_bound);
/// Bound to this port on all addresses, but not listening: others do not get it by chance, and a
/// server of this host with SO_REUSEADDR, which nearly all set, can listen there. Port 0: any.
Result<Fd> reserve_port(std::uint16_t port);
/// A connection that waits to be taken, or an invalid Fd when there is none now.
Result<Fd> accept_connection(int listener);
/// Starts to connect; the socket becomes writable when `connect_result` can tell the outcome.
Result<Fd> start_connect(const Address& address);
/// Ok when the connection stands; else why it could not be made.
Outcome connect_result(int fd);
/// Connects, waiting until the deadline.
Result<Fd> connect_tcp(const Address& address, Deadline deadline);

Result<Address> local_address(int fd);
Result<Address> peer_address(int fd);
/// Sends small frames at once instead of collecting them.
Outcome set_no_delay(int fd);
/// Asks the kernel to notice a peer whose host has answered nothing for `limit`, in whole seconds
/// and at least three: ETIMEDOUT. It asks after a third of that, twice to five times.
Outcome set_keep_alive(int fd, std::chrono::milliseconds limit);
/// The error that the kernel keeps for the socket, and forgets when it is told; 0: none.
[[nodiscard]] int take_error(int fd) noexcept;

/// Bytes sent, 0 when the socket is full. Never raises SIGPIPE.
Result<std::size_t> send_some(int fd, std::span<const std::byte> bytes);
/// Bytes received, 0 when there are none now, nothing when the peer has closed.
Result<std::optional<std::size_t>> receive_some(int fd, std::span<std::byte> bytes);
/// All of them, waiting until the deadline.
Outcome send_all(int fd, std::span<const std::byte> bytes, Deadline deadline);
Outcome receive_all(int fd, std::span<std::byte> bytes, Deadline deadline);
/// Waits until `events` (POLLIN, POLLOUT) or an error is there: true, or false at the deadline.
Result<bool> wait_ready(int fd, short events, Deadline deadline);

/// A unix stream socket. A name that begins with '/' is a path, whose file the caller removes. Any
/// other name is abstract: it has no file, is gone with its last descriptor, and every user of the
/// network namespace can connect.
Result<Fd> listen_unix(std::string_view name, int backlog = 2048);
/// Does not wait; timeout: the backlog is full, try again; refused: nobody listens there. A process
/// cannot send descriptors to it before `take_descriptors`, where the kernel can prevent that.
Result<Fd> connect_unix(std::string_view name);
/// True if the process at the other end of a unix socket has our effective user. A user that has no
/// number in our user namespace counts as 65534.
[[nodiscard]] bool is_of_this_user(int fd) noexcept;
/// Lets the other end send descriptors or not (SO_PASSRIGHTS, Linux 6.16); connections inherit it
/// from their listener. Without effect on older kernels.
void take_descriptors(int fd, bool take) noexcept;
/// As receive_some, but the bytes and their descriptors stay where they are.
Result<std::optional<std::size_t>> peek_some(int fd, std::span<std::byte> bytes);

inline constexpr std::size_t kMaxFdsPerMessage = 253;
/// Sends `bytes` (at least one) with descriptors, waiting until the deadline.
Outcome send_fds(int fd, std::span<const int> fds, std::span<const std::byte> bytes,
                 Deadline deadline);
struct ReceivedFds {
  std::size_t bytes = 0;
  std::vector<Fd> fds;
};
/// Receives at most `bytes.size()` bytes and the descriptors that came with them (closed on exec),
/// waiting until the deadline. A closed peer is an error.
Result<ReceivedFds> receive_fds(int fd, std::span<std::byte> bytes, Deadline deadline);

}  // namespace tutti::os
