#include "secure/stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "os/system_error.hpp"

namespace tutti::secure {
namespace {

Outcome await(int fd, short events, os::Deadline deadline, const char* what) {
  auto ready = os::wait_ready(fd, events, deadline);
  if (!ready) return ready.status();
  if (*ready) return {};
  return Outcome(Errc::timeout, std::string(what) + ": the deadline has passed");
}

}  // namespace

Outcome check_can_encrypt(std::span<const std::byte> secret) {
  if (secret.empty()) {
    return Outcome(
        Errc::invalid_argument,
        "connections are to be encrypted (TUTTI_TLS), but this process has no secret to do it "
        "with, as TUTTI_INSECURE says; unset it, or give all processes the same "
        "TUTTI_SECRET_FILE");
  }
  return Tls::library().status();
}

const std::string& Stream::trouble() const noexcept {
  static const std::string kNone;
  return tls_ != nullptr ? tls_->trouble() : kNone;
}

Outcome Stream::encrypt(const Digest& key, const Tls::Options& options) {
  auto tls = Tls::start(fd_.get(), key, options);
  if (!tls) return tls.status();
  tls_ = std::move(*tls);
  return {};
}

Moved Stream::read_plain(std::span<iovec> pieces) noexcept {
  while (true) {
    ssize_t got = 0;
    if (pieces.size() == 1) {
      got = recv(fd_.get(), pieces[0].iov_base, pieces[0].iov_len, 0);
    } else {
      got = readv(fd_.get(), pieces.data(), static_cast<int>(pieces.size()));
    }
    if (got > 0) return {static_cast<std::size_t>(got), 0, false};
    if (got == 0) return {0, 0, true};
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {};
    return {0, errno, false};
  }
}

Moved Stream::write_plain(std::span<iovec> pieces) noexcept {
  if (pieces.empty()) return {};
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  while (true) {
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) return {static_cast<std::size_t>(sent), 0, false};
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return {};
    return {0, errno, false};
  }
}

Outcome Stream::status_of(const Moved& moved, const char* what) const {
  if (moved.ended) return Outcome(Errc::peer_lost, "it closed the connection");
  if (!trouble().empty()) {
    return Outcome(Errc::refused, std::string(what) + ": " + trouble() +
                                      "; does something on the way change packets?");
  }
  return os::system_error(what, moved.error);
}

Outcome Stream::write_all(std::span<const std::byte> bytes, os::Deadline deadline) {
  constexpr const char* kWhat = "cannot send";
  while (!bytes.empty() || unsent() > 0) {
    const Moved moved = write_some(bytes);
    if (moved.error != 0) return status_of(moved, kWhat);
    bytes = bytes.subspan(moved.bytes);
    if (moved.bytes > 0 && unsent() == 0) continue;
    if (bytes.empty() && unsent() == 0) break;
    if (Outcome s = await(fd_.get(), POLLOUT, deadline, kWhat); !s) return s;
  }
  return {};
}

Outcome Stream::read_all(std::span<std::byte> bytes, os::Deadline deadline) {
  constexpr const char* kWhat = "cannot receive";
  while (!bytes.empty()) {
    const Moved moved = read_some(bytes);
    if (moved.error != 0) return status_of(moved, kWhat);
    if (moved.ended) return os::system_error(kWhat, ECONNRESET);
    bytes = bytes.subspan(moved.bytes);
    if (moved.bytes > 0) continue;
    if (Outcome s = await(fd_.get(), POLLIN, deadline, kWhat); !s) return s;
  }
  return {};
}

Outcome Stream::shake_until(os::Deadline deadline) {
  while (true) {
    auto shaken = shake();
    if (!shaken) return shaken.status();
    if (*shaken) return {};
    const short events = static_cast<short>(unsent() > 0 ? POLLIN | POLLOUT : POLLIN);
    if (Outcome s = await(fd_.get(), events, deadline, "cannot encrypt the connection"); !s)
      return s;
  }
}

}  // namespace tutti::secure
