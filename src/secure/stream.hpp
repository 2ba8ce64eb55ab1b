#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <tutti/error.hpp>

#include "os/fd.hpp"
#include "os/socket.hpp"
#include "secure/tls.hpp"

namespace tutti::secure {

/// An error unless connections of a job with this secret can be encrypted here: invalid_argument
/// without a secret, unsupported where libssl cannot be loaded.
Outcome check_can_encrypt(std::span<const std::byte> secret);

/// Owns a connected, non-blocking socket, plain at first, encrypted from `encrypt` on. Its user
/// does not see the difference, except that `unsent` and `may_have_unread` must be heeded before
/// waiting for the socket. Belongs to one thread at a time.
class Stream {
 public:
  Stream() noexcept = default;
  explicit Stream(os::Fd fd) noexcept : fd_(std::move(fd)) {}
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept {
    reset();
    fd_ = std::move(other.fd_);
    tls_ = std::move(other.tls_);
    return *this;
  }

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] bool valid() const noexcept { return fd_.valid(); }
  /// Hangs up.
  void reset() noexcept {
    tls_.reset();
    fd_.reset();
  }

  /// From here on all bytes travel in TLS; nothing of it may have been read yet. Both ends call it
  /// at the same place of their conversation.
  Outcome encrypt(const Digest& key, const Tls::Options& options);
  [[nodiscard]] bool encrypted() const noexcept { return tls_ != nullptr; }
  /// Goes on with the handshake of TLS, as `Tls::shake`; true at once for a plain one.
  Result<bool> shake() { return tls_ != nullptr ? tls_->shake() : Result<bool>(true); }

  /// As readv. An encrypted one fills all pieces if so much has come.
  Moved read(std::span<iovec> pieces) noexcept {
    return tls_ != nullptr ? tls_->read(pieces) : read_plain(pieces);
  }
  /// As writev. Bytes that were taken may still wait here: see `unsent`. Without pieces it only
  /// sends those.
  Moved write(std::span<iovec> pieces) noexcept {
    return tls_ != nullptr ? tls_->write(pieces) : write_plain(pieces);
  }
  Moved read_some(std::span<std::byte> bytes) noexcept {
    iovec piece{bytes.data(), bytes.size()};
    return read(std::span(&piece, 1));
  }
  Moved write_some(std::span<const std::byte> bytes) noexcept {
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    return write(std::span(&piece, 1));
  }
  /// Taken by `write` and not by the socket: when that is writable, call `write` again.
  [[nodiscard]] std::size_t unsent() const noexcept { return tls_ != nullptr ? tls_->unsent() : 0; }
  /// There may be bytes of which the socket does not tell: read before waiting for it.
  [[nodiscard]] bool may_have_unread() const noexcept {
    return tls_ != nullptr && tls_->may_have_unread();
  }

  /// Why TLS failed, in OpenSSL's words; else empty.
  [[nodiscard]] const std::string& trouble() const noexcept;

  /// All of it, waiting until the deadline.
  Outcome write_all(std::span<const std::byte> bytes, os::Deadline deadline);
  Outcome read_all(std::span<std::byte> bytes, os::Deadline deadline);
  /// Both ends proven, waiting until the deadline.
  Outcome shake_until(os::Deadline deadline);
  /// The error of a `Moved` as text: "cannot receive: Connection reset by peer".
  [[nodiscard]] Outcome status_of(const Moved& moved, const char* what) const;

 private:
  Moved read_plain(std::span<iovec> pieces) noexcept;
  Moved write_plain(std::span<iovec> pieces) noexcept;

  os::Fd fd_;
  std::unique_ptr<Tls> tls_;  // goes first: it uses the socket
};

}  // namespace tutti::secure
