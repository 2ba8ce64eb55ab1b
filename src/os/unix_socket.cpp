#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>

#include "base/format.hpp"
#include "os/descriptors.hpp"
#include "os/socket.hpp"
#include "os/stream_type.hpp"
#include "os/system_error.hpp"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

namespace tutti::os {
namespace {

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* data() const noexcept {
    return reinterpret_cast<const sockaddr*>(&address);
  }
};

Result<UnixAddress> address_of(std::string_view name) {
  UnixAddress result;
  result.address.sun_family = AF_UNIX;
  // One byte more than the name: a zero byte ends a path, and begins an abstract name.
  if (name.empty() || name.size() > sizeof result.address.sun_path - 1) {
    return Outcome(Errc::invalid_argument,
                   base::format("the name of a unix socket has 1 to {} bytes, not {}",
                                sizeof result.address.sun_path - 1, name.size()));
  }
  const std::size_t at = name.front() == '/' ? 0 : 1;
  std::memcpy(result.address.sun_path + at, name.data(), name.size());
  result.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return result;
}

/// As many descriptors as this process may have at all, while this lives.
class MostDescriptors {
 public:
  MostDescriptors() noexcept : before_(raise_descriptor_limit()) {}
  ~MostDescriptors() { (void)setrlimit(RLIMIT_NOFILE, &before_); }
  MostDescriptors(const MostDescriptors&) = delete;
  MostDescriptors& operator=(const MostDescriptors&) = delete;

 private:
  rlimit before_;
};

std::string shown(std::string_view name) {
  return base::format("{}{}", name.front() == '/' ? "" : "@", name);
}

}  // namespace

Result<Fd> listen_unix(std::string_view name, int backlog) {
  auto address = address_of(name);
  if (!address) return address.status();
  Fd fd = private_socket(AF_UNIX);
  if (!fd.valid() || bind(fd.get(), address->data(), address->length) != 0 ||
      listen(fd.get(), backlog) != 0)
    return system_error(base::format("cannot listen on unix socket {}", shown(name)), errno);
  return fd;
}

Result<Fd> connect_unix(std::string_view name) {
  auto address = address_of(name);
  if (!address) return address.status();
  Fd fd = private_socket(AF_UNIX);
  if (fd.valid()) take_descriptors(fd.get(), false);
  // Unix sockets connect at once or not at all.
  if (fd.valid() && connect(fd.get(), address->data(), address->length) == 0) return fd;
  if (fd.valid() && errno == EAGAIN) {
    return Outcome(Errc::timeout, base::format("cannot connect to unix socket {} now: too many "
                                               "others wait there to be taken",
                                               shown(name)));
  }
  if (fd.valid() && errno == ENOENT) errno = ECONNREFUSED;  // its owner has removed the file
  return system_error(base::format("cannot connect to unix socket {}", shown(name)), errno);
}

bool is_of_this_user(int fd) noexcept {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

void take_descriptors(int fd, bool take) noexcept {
  const int value = take ? 1 : 0;
  (void)setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &value, sizeof value);
}

Outcome send_fds(int fd, std::span<const int> fds, std::span<const std::byte> bytes,
                 Deadline deadline) {
  if (bytes.empty() || fds.size() > kMaxFdsPerMessage) {
    return Outcome(Errc::invalid_argument,
                   base::format("descriptors travel with at least one byte and at most {} at once",
                                kMaxFdsPerMessage));
  }
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)> control{};
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  const auto late = [](std::string_view why = "the deadline has passed") {
    return Outcome(Errc::timeout, base::format("cannot send descriptors: {}", why));
  };
  std::optional<MostDescriptors> raised;
  while (true) {
    const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
    // The descriptors went with the first byte; the rest is an ordinary stream.
    if (sent > 0) return send_all(fd, bytes.subspan(static_cast<std::size_t>(sent)), deadline);
    if (errno == EINTR) continue;
    if (errno == ETOOMANYREFS) {
      // So many of this user's are under way, to whomever, as this process may have open. Nothing
      // tells when one of them is taken.
      if (!raised) {
        raised.emplace();
        continue;
      }
      if (std::chrono::steady_clock::now() >= deadline)
        return late(
            "processes of this user have as many under way as this process may open; allow it more "
            "(ulimit -Hn), or run fewer jobs at a time");
      poll(nullptr, 0, 1);
      continue;
    }
    if (errno != EAGAIN) return system_error("cannot send descriptors", errno);
    auto ready = wait_ready(fd, POLLOUT, deadline);
    if (!ready) return ready.status();
    if (!*ready) return late();
  }
}

Result<ReceivedFds> receive_fds(int fd, std::span<std::byte> bytes, Deadline deadline) {
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int) * kMaxFdsPerMessage)> control{};
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = 0;
  while ((got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return system_error("cannot receive descriptors", errno);
    auto ready = wait_ready(fd, POLLIN, deadline);
    if (!ready) return ready.status();
    if (!*ready)
      return Outcome(Errc::timeout, "cannot receive descriptors: the deadline has passed");
  }
  ReceivedFds result;
  result.bytes = static_cast<std::size_t>(got);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int received = -1;
      std::memcpy(&received, CMSG_DATA(header) + i * sizeof(int), sizeof received);
      result.fds.emplace_back(received);
    }
  }
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return Outcome(Errc::resource,
                   "the kernel dropped received descriptors; is the limit of open files reached?");
  }
  if (got == 0) return system_error("cannot receive descriptors", ECONNRESET);
  return result;
}

}  // namespace tutti::os
