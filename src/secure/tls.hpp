#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tutti/error.hpp>

#include "secure/hmac.hpp"

struct ssl_st;
struct bio_st;

namespace tutti::secure {

/// The result of a read or write. Nothing ready: zero bytes, no error, not ended.
struct Moved {
  std::size_t bytes = 0;
  int error = 0;
  bool ended = false;
};

/// One end of a TLS 1.3 connection over a non-blocking socket: no certificates, both ends know a
/// key and prove it (external PSK with an ephemeral Diffie-Hellman exchange on top, so who learns
/// the key later cannot read what was recorded). Never waits, never raises SIGPIPE.
///
/// libssl does not touch the socket: what it has encrypted is collected here and sent in larger
/// pieces, so a write never has to be repeated with the same bytes.
class Tls {
 public:
  enum class Role : unsigned char { client, server };
  enum class Use : unsigned char {
    busy,  ///< much is moved: buffers are made once and kept (about 180 KiB)
    quiet  ///< rarely used: little memory is kept while nothing is on the way
  };
  struct Options {
    Role role = Role::client;
    Use use = Use::busy;
    /// So many records under one key; then a new one (AES-GCM must not see too many, RFC 8446 5.5).
    std::uint64_t records_per_key = std::uint64_t{1} << 23;
  };

  /// `fd` stays the caller's, and open for as long as this lives. Fails (unsupported) where libssl
  /// cannot be loaded.
  static Result<std::unique_ptr<Tls>> start(int fd, const Digest& key, const Options& options);
  ~Tls();
  Tls(const Tls&) = delete;
  Tls& operator=(const Tls&) = delete;

  /// Goes on with the handshake: true once both ends are proven, false while the peer has to speak.
  /// Fails with `refused` if the peer does not know the key or does not speak TLS 1.3, `peer_lost`
  /// if it hung up.
  Result<bool> shake();
  /// Fills the pieces with what has come, shaking hands first. Fewer bytes than asked for: there
  /// are no more now.
  Moved read(std::span<const iovec> pieces) noexcept;
  /// Takes from the pieces what there is room for; the caller may then reuse it. Without pieces it
  /// only sends what is still here. Before the handshake is over it takes nothing.
  Moved write(std::span<const iovec> pieces) noexcept;
  /// Encrypted and not yet taken by the socket: write again when that is writable.
  [[nodiscard]] std::size_t unsent() const noexcept { return out_.size() - out_begin_; }
  /// Something may have come that the socket does not tell of any more: read before waiting.
  [[nodiscard]] bool may_have_unread() const noexcept { return may_have_unread_; }
  /// Why it failed, where an errno does not tell; else empty.
  [[nodiscard]] const std::string& trouble() const noexcept { return trouble_; }

  /// OpenSSL's own name of the libraries in use, e.g. "OpenSSL 3.0.19 27 Jan 2026".
  static Result<std::string> library();

 private:
  friend struct Callbacks;

  Tls(int fd, const Digest& key, const Options& options) noexcept
      : fd_(fd), key_(key), options_(options) {}
  [[nodiscard]] Moved failure(int why) noexcept;
  [[nodiscard]] std::span<const std::byte> next_record(std::span<const iovec> pieces,
                                                       std::size_t& piece, std::size_t& offset);
  bool encrypt(std::span<const std::byte> plain) noexcept;
  [[nodiscard]] bool has_room() noexcept;
  void send_out() noexcept;
  /// libssl asks for up to `size` bytes: how many there were; 0 and `starved_`: none now.
  std::size_t fetch(char* to, std::size_t size) noexcept;

  int fd_;
  Digest key_;
  Options options_;
  ssl_st* ssl_ = nullptr;
  bool proven_ = false;
  bool may_have_unread_ = false;
  bool starved_ = false;  ///< the socket had nothing when it was asked last
  bool ended_ = false;    ///< the peer has closed its half
  bool failed_ = false;   ///< TLS is broken; nothing more comes or goes
  Moved over_;            ///< ... and this is what reading says then
  int error_ = 0;         ///< of the socket
  std::string trouble_;
  std::uint64_t records_ = 0;  ///< sent under the key in use
  std::vector<std::byte> in_;  ///< read from the socket in one go; empty: libssl reads for itself
  std::size_t in_begin_ = 0;
  std::size_t in_end_ = 0;
  std::vector<std::byte> out_;
  std::size_t out_begin_ = 0;
  std::vector<std::byte> gathered_;  ///< small pieces on their way into one record
};

}  // namespace tutti::secure
