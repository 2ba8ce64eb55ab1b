#include "os/socket.hpp"

#include <linux/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "base/forks.hpp"
#include "base/format.hpp"
#include "os/private_descriptors.hpp"
#include "os/stream_type.hpp"
#include "os/system_error.hpp"

namespace tutti::os {
namespace {

Outcome set_flag(int fd, int level, int option, int value, std::string_view what) {
  if (setsockopt(fd, level, option, &value, sizeof value) != 0) return system_error(what, errno);
  return {};
}

/// A unix socket; these connect once, while a world is made, and are not dialled again.
bool is_local(int fd) noexcept {
  int family = AF_UNSPEC;
  socklen_t length = sizeof family;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 && family == AF_UNIX;
}

// The name that programs look for where a port is in use.
constexpr std::string_view kInUse = " (EADDRINUSE)";

Outcome not_bound(std::string_view what, int error_number) {
  const Outcome why = system_error(what, error_number);
  if (error_number != EADDRINUSE) return why;
  return Outcome(why.code(), base::format("{}{}", why.message(), kInUse));
}

Result<Fd> bind_to(const Address& address, const std::string& what) {
  Fd fd = private_socket(address.family());
  if (!fd.valid()) return system_error(what, errno);
  if (Outcome s = set_flag(fd.get(), SOL_SOCKET, SO_REUSEADDR, 1, what); !s) return s;
  if (address.family() == AF_INET6) {
    const int only = address.is_unspecified() ? 0 : 1;
    if (Outcome s = set_flag(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, only, what); !s) return s;
  }
  if (bind(fd.get(), address.data(), address.size()) != 0) return not_bound(what, errno);
  return fd;
}

Result<Fd> listen_on(const Address& address, int backlog) {
  const std::string what = base::format("cannot listen on {}", address.to_string());
  auto fd = bind_to(address, what);
  if (fd && listen(fd->get(), backlog) != 0) return not_bound(what, errno);
  return fd;
}

/// The one that means all addresses of both families, or of IPv4 where there is no IPv6.
Result<Address> every_address(std::uint16_t port) {
  const Fd probe = private_socket(AF_INET6);
  const bool only_ipv4 = !probe.valid() && errno == EAFNOSUPPORT;
  return Address::parse(only_ipv4 ? "0.0.0.0" : "::", port);
}

Outcome timed_out(std::string_view what) {
  return Outcome(Errc::timeout, base::format("{}: the deadline has passed", what));
}

}  // namespace

Fd private_socket(int family) noexcept {
  while (true) {
    const base::ForkWatch watch;
    Fd fd(socket(family, kStreamType, 0));
    if (!fd.valid()) return fd;
    keep_private(fd.get());
    if (!watch.forked()) return fd;  // else a child may have it, and nothing is lost yet
  }
}

bool is_port_in_use(const Outcome& not_bound) { return not_bound.message().ends_with(kInUse); }

Result<Fd> listen_tcp(const Address& address, int backlog) {
  if (!address.is_unspecified()) return listen_on(address, backlog);
  auto every = every_address(address.port());
  if (!every) return every.status();
  return listen_on(*every, backlog);
}

Result<Fd> reserve_port(std::uint16_t port) {
  auto every = every_address(port);
  if (!every) return every.status();
  return bind_to(*every, base::format("cannot bind {}", every->to_string()));
}

Result<Fd> accept_connection(int listener) {
  while (true) {
    const base::ForkWatch watch;
    Fd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.valid()) {
      keep_private(fd.get());
      if (!watch.forked() || is_local(fd.get())) return fd;
      // A child may have a copy, which would hide our death: the other side dials again.
      shutdown(fd.get(), SHUT_RDWR);
      continue;
    }
    switch (errno) {
      case EAGAIN: return Fd();
      // A connection that died while it waited is not the listener's trouble.
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
      case ENETDOWN:
      case EHOSTUNREACH:
      case ENETUNREACH: continue;
      default: return system_error("cannot accept a connection", errno);
    }
  }
}

Result<Fd> start_connect(const Address& address) {
  const std::string what = base::format("cannot connect to {}", address.to_string());
  Fd fd = private_socket(address.family());
  if (!fd.valid()) return system_error(what, errno);
  if (connect(fd.get(), address.data(), address.size()) != 0 && errno != EINPROGRESS &&
      errno != EINTR)
    return system_error(what, errno);
  return fd;
}

int take_error(int fd) noexcept {
  int error = 0;
  socklen_t length = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error;
}

Outcome connect_result(int fd) {
  const int error = take_error(fd);
  return error == 0 ? Outcome() : system_error("cannot connect", error);
}

Result<Fd> connect_tcp(const Address& address, Deadline deadline) {
  auto fd = start_connect(address);
  if (!fd) return fd;
  const std::string what = base::format("cannot connect to {}", address.to_string());
  auto ready = wait_ready(fd->get(), POLLOUT, deadline);
  if (!ready) return ready.status();
  if (!*ready) return timed_out(what);
  const int error = take_error(fd->get());
  if (error != 0) return system_error(what, error);
  // A port of our own range may be dialled from itself; nobody else is there then.
  auto mine = local_address(fd->get());
  auto theirs = peer_address(fd->get());
  if (mine && theirs && *mine == *theirs) return system_error(what, ECONNREFUSED);
  return fd;
}

Result<Address> local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return system_error("cannot tell a socket's address", errno);
  return Address::from_socket(storage);
}

Result<Address> peer_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0)
    return system_error("cannot tell a peer's address", errno);
  return Address::from_socket(storage);
}

Outcome set_no_delay(int fd) {
  return set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1, "cannot set TCP_NODELAY");
}

Outcome set_keep_alive(int fd, std::chrono::milliseconds limit) {
  constexpr std::string_view what = "cannot set SO_KEEPALIVE";
  constexpr int kMostQuestions = 5;
  // Within the range that the kernel takes. Shorter than 3 s, a single packet would be asked for,
  // which a host that lives may lose.
  const int seconds = static_cast<int>(
      std::clamp<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(limit).count(), 3, 32767));
  const int asking = seconds - std::max(seconds / 3, 1);
  const int pause = (asking + kMostQuestions - 1) / kMostQuestions;
  const int questions = asking / pause;
  if (Outcome s = set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1, what); !s) return s;
  if (Outcome s = set_flag(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds - questions * pause, what); !s)
    return s;
  if (Outcome s = set_flag(fd, IPPROTO_TCP, TCP_KEEPINTVL, pause, what); !s) return s;
  return set_flag(fd, IPPROTO_TCP, TCP_KEEPCNT, questions, what);
}

Result<std::size_t> send_some(int fd, std::span<const std::byte> bytes) {
  while (true) {
    const ssize_t sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return std::size_t{0};
    return system_error("cannot send", errno);
  }
}

namespace {

Result<std::optional<std::size_t>> receive(int fd, std::span<std::byte> bytes, int flags) {
  while (true) {
    const ssize_t got = recv(fd, bytes.data(), bytes.size(), flags);
    if (got > 0) return std::optional<std::size_t>(static_cast<std::size_t>(got));
    if (got == 0) return std::optional<std::size_t>();
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return std::optional<std::size_t>(0);
    return system_error("cannot receive", errno);
  }
}

}  // namespace

Result<std::optional<std::size_t>> receive_some(int fd, std::span<std::byte> bytes) {
  return receive(fd, bytes, 0);
}

Result<std::optional<std::size_t>> peek_some(int fd, std::span<std::byte> bytes) {
  return receive(fd, bytes, MSG_PEEK);
}

Result<bool> wait_ready(int fd, short events, Deadline deadline) {
  while (true) {
    const auto left = std::max(deadline - std::chrono::steady_clock::now(),
                               std::chrono::steady_clock::duration::zero());
    timespec timeout{};
    timeout.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
    timeout.tv_nsec =
        std::chrono::duration_cast<std::chrono::nanoseconds>(left % std::chrono::seconds(1))
            .count();
    pollfd entry{fd, events, 0};
    const int count = ppoll(&entry, 1, &timeout, nullptr);
    if (count > 0) return true;
    if (count == 0) return false;
    if (errno != EINTR) return system_error("cannot wait for a descriptor", errno);
  }
}

Outcome send_all(int fd, std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    auto sent = send_some(fd, bytes);
    if (!sent) return sent.status();
    bytes = bytes.subspan(*sent);
    if (*sent == 0) {
      auto ready = wait_ready(fd, POLLOUT, deadline);
      if (!ready) return ready.status();
      if (!*ready) return timed_out("cannot send");
    }
  }
  return {};
}

Outcome receive_all(int fd, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    auto got = receive_some(fd, bytes);
    if (!got) return got.status();
    if (!got->has_value()) return system_error("cannot receive", ECONNRESET);
    bytes = bytes.subspan(**got);
    if (**got == 0) {
      auto ready = wait_ready(fd, POLLIN, deadline);
      if (!ready) return ready.status();
      if (!*ready) return timed_out("cannot receive");
    }
  }
  return {};
}

}  // namespace tutti::os
