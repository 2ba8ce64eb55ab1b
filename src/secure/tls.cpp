#include "secure/tls.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "os/system_error.hpp"
#include "secure/tls_callbacks.hpp"

namespace tutti::secure {
namespace {

// A record holds at most so much; what libssl puts around it is far below the room we leave.
constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::size_t kRecordRoom = kRecordBytes + 512;
// Sent in one go. More would only leave the L2 cache, and hold up an abort.
constexpr std::size_t kOutBytes = 4 * kRecordRoom;
constexpr std::size_t kInBytes = std::size_t{64} << 10;

}  // namespace

Result<std::string> Tls::library() {
  const Callbacks& library = Callbacks::get();
  if (!library.status) return library.status;
  return std::string(library.version(OPENSSL_VERSION));
}

Result<std::unique_ptr<Tls>> Tls::start(int fd, const Digest& key, const Options& options) {
  const Callbacks& library = Callbacks::get();
  if (!library.status) return library.status;
  const Outcome no_memory(Errc::resource, "no memory for an encrypted connection");
  try {
    std::unique_ptr<Tls> tls(new Tls(fd, key, options));
    const bool busy = options.use == Use::busy;
    if (busy) {
      tls->in_.resize(kInBytes);
      tls->out_.reserve(kOutBytes);
      tls->gathered_.reserve(kRecordBytes);
    }
    tls->ssl_ = library.ssl_new(busy ? library.busy : library.quiet);
    if (tls->ssl_ == nullptr) return no_memory;
    BIO* bio = library.bio_new(library.method);
    if (bio == nullptr) return no_memory;
    library.bio_set_data(bio, tls.get());
    library.bio_set_init(bio, 1);
    library.set_bio(tls->ssl_, bio, bio);
    if (library.set_ex_data(tls->ssl_, 0, tls.get()) != 1) return no_memory;
    if (options.role == Role::server) {
      library.set_accept_state(tls->ssl_);
      return tls;
    }
    library.set_connect_state(tls->ssl_);
    // A server that would rather show a certificate is none of ours: nobody can vouch for it.
    library.set_verify(tls->ssl_, SSL_VERIFY_PEER, nullptr);
    return tls;
  } catch (const std::bad_alloc&) {
    return no_memory;
  }
}

Tls::~Tls() {
  if (ssl_ != nullptr) Callbacks::get().ssl_free(ssl_);
}

Moved Tls::failure(int why) noexcept {
  failed_ = true;
  may_have_unread_ = false;
  if (error_ != 0) return over_ = {0, error_, false};
  if (ended_ || why == SSL_ERROR_ZERO_RETURN) return over_ = {0, 0, true};
  const char* reason = Callbacks::get().reason(Callbacks::get().peek_error());
  if (trouble_.empty()) {
    try {
      trouble_ = std::string("TLS: ") + (reason != nullptr ? reason : "unknown reason");
    } catch (const std::bad_alloc&) {  // then without words
    }
  }
  return over_ = {0, EBADMSG, false};
}

Result<bool> Tls::shake() {
  if (proven_) return true;
  const Callbacks& library = Callbacks::get();
  library.clear_error();
  const int result = library.do_handshake(ssl_);
  const int why = result == 1 ? SSL_ERROR_NONE : library.get_error(ssl_, result);
  // Otherwise some other way of proving oneself was taken, and we have none.
  const bool keyed = result == 1 && library.session_reused(ssl_) == 1;
  const bool waits = result != 1 && why == SSL_ERROR_WANT_READ;
  Moved failed;
  if (!keyed && !waits) failed = failure(why);
  send_out();  // also the alert that tells the peer why
  if (keyed) {
    proven_ = true;
    may_have_unread_ = true;  // frames may have come together with the end of the TLS handshake
    return true;
  }
  if (waits) return error_ != 0 ? os::system_error("cannot send", error_) : Result<bool>(false);
  if (failed.ended)
    return Outcome(Errc::peer_lost, "it closed the connection before it was encrypted");
  if (error_ != 0) return os::system_error("cannot encrypt the connection", error_);
  return Outcome(Errc::refused, "the connection could not be encrypted (" + trouble_ +
                                    "); does something on the way change packets?");
}

Moved Tls::read(std::span<const iovec> pieces) noexcept {
  const Callbacks& library = Callbacks::get();
  if (failed_) {
    may_have_unread_ = false;
    return over_;
  }
  if (!proven_) {
    try {
      auto shaken = shake();
      if (!shaken) return failed_ ? over_ : failure(SSL_ERROR_SSL);
      if (!*shaken) return {};
    } catch (const std::bad_alloc&) {
      error_ = ENOMEM;
      return failure(SSL_ERROR_SSL);
    }
  }
  Moved moved;
  may_have_unread_ = true;
  for (std::size_t piece = 0; piece < pieces.size() && may_have_unread_; ++piece) {
    auto* to = static_cast<std::byte*>(pieces[piece].iov_base);
    std::size_t left = pieces[piece].iov_len;
    while (left > 0) {
      std::size_t got = 0;
      library.clear_error();
      const int result = library.read_ex(ssl_, to, left, &got);
      if (result == 1) {
        to += got;
        left -= got;
        moved.bytes += got;
        continue;
      }
      may_have_unread_ = false;
      const int why = library.get_error(ssl_, result);
      if (why != SSL_ERROR_WANT_READ) {
        // Bytes that have come before are reported first.
        const Moved over = failure(why);
        if (moved.bytes == 0)
          moved = over;
        else
          may_have_unread_ = true;
      }
      if (unsent() > 0) send_out();  // libssl may have answered something
      return moved;
    }
  }
  return moved;
}

std::span<const std::byte> Tls::next_record(std::span<const iovec> pieces, std::size_t& piece,
                                            std::size_t& offset) {
  while (piece < pieces.size() && pieces[piece].iov_len == offset) {
    ++piece;
    offset = 0;
  }
  if (piece == pieces.size()) return {};
  const auto rest_of = [&] {
    return std::span(static_cast<const std::byte*>(pieces[piece].iov_base), pieces[piece].iov_len)
        .subspan(offset);
  };
  const auto first = rest_of();
  if (first.size() >= kRecordBytes || piece + 1 == pieces.size()) {
    const auto record = first.first(std::min(first.size(), kRecordBytes));
    offset += record.size();
    return record;
  }
  // Heads and small payloads share a record.
  gathered_.clear();
  while (piece < pieces.size() && gathered_.size() < kRecordBytes) {
    const auto rest = rest_of();
    const auto part = rest.first(std::min(rest.size(), kRecordBytes - gathered_.size()));
    gathered_.insert(gathered_.end(), part.begin(), part.end());
    offset += part.size();
    if (offset == pieces[piece].iov_len) {
      ++piece;
      offset = 0;
    }
  }
  return gathered_;
}

bool Tls::has_room() noexcept {
  if (out_.size() + kRecordRoom <= kOutBytes || unsent() == 0) return true;
  send_out();
  return out_.size() + kRecordRoom <= kOutBytes;
}

bool Tls::encrypt(std::span<const std::byte> plain) noexcept {
  const Callbacks& library = Callbacks::get();
  library.clear_error();
  if (++records_ > options_.records_per_key) {
    records_ = 1;
    if (library.key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return false;
  }
  std::size_t done = 0;
  // All of it: what it becomes goes to memory, where there is room.
  return library.write_ex(ssl_, plain.data(), plain.size(), &done) == 1 && done == plain.size();
}

Moved Tls::write(std::span<const iovec> pieces) noexcept {
  Moved moved;
  const auto broken = [&] { return Moved{0, error_ != 0 ? error_ : EPIPE, false}; };
  if (failed_ || error_ != 0) return broken();
  std::size_t piece = 0;
  std::size_t offset = 0;
  while (proven_ && has_room()) {
    std::span<const std::byte> record;
    try {
      record = next_record(pieces, piece, offset);
    } catch (const std::bad_alloc&) {
      error_ = ENOMEM;
    }
    if (record.empty()) break;
    if (!encrypt(record)) {
      static_cast<void>(failure(SSL_ERROR_SSL));
      return broken();
    }
    moved.bytes += record.size();
  }
  send_out();
  return error_ != 0 ? broken() : moved;
}

void Tls::send_out() noexcept {
  while (unsent() > 0 && error_ == 0) {
    const ssize_t sent = send(fd_, out_.data() + out_begin_, unsent(), MSG_NOSIGNAL);
    if (sent >= 0) {
      out_begin_ += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  if (out_begin_ == 0) return;
  // Moves the rest to the front, so that the buffer need not grow for further bytes.
  out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_begin_));
  out_begin_ = 0;
  if (out_.empty() && options_.use == Use::quiet) out_ = {};
}

std::size_t Tls::fetch(char* to, std::size_t size) noexcept {
  starved_ = false;
  if (in_begin_ < in_end_) {
    const std::size_t count = std::min(size, in_end_ - in_begin_);
    std::memcpy(to, in_.data() + in_begin_, count);
    in_begin_ += count;
    return count;
  }
  const bool direct = in_.size() <= size;
  while (true) {
    const ssize_t got =
        recv(fd_, direct ? static_cast<void*>(to) : in_.data(), direct ? size : in_.size(), 0);
    if (got > 0) {
      if (direct) return static_cast<std::size_t>(got);
      in_begin_ = 0;
      in_end_ = static_cast<std::size_t>(got);
      return fetch(to, size);
    }
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) ended_ = true;
    if (got < 0 && errno == EAGAIN) starved_ = true;
    if (got < 0 && errno != EAGAIN) error_ = errno;
    return 0;
  }
}

}  // namespace tutti::secure
