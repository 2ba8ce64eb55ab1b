#include "secure/tls.hpp"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "os/system_error.hpp"
#include "secure/openssl.hpp"

namespace tutti::secure {
namespace {

// A record holds at most so much; what libssl puts around it is far below the room we leave.
constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
constexpr std::size_t kRecordRoom = kRecordBytes + 512;
// Sent in one go. More would only leave the L2 cache, and hold up an abort.
constexpr std::size_t kOutBytes = 4 * kRecordRoom;
constexpr std::size_t kInBytes = std::size_t{64} << 10;

constexpr const char* kCipherSuite = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kCipherNumber = {0x13, 0x01};
// The key belongs to this one connection, so there is nothing to choose by name.
constexpr std::array<unsigned char, 5> kIdentity = {'t', 'u', 't', 't', 'i'};

}  // namespace

/// What libssl calls, and what we call in it.
struct Callbacks {
  decltype(&::TLS_method) tls_method = nullptr;
  decltype(&::SSL_CTX_new) ctx_new = nullptr;
  decltype(&::SSL_CTX_ctrl) ctx_ctrl = nullptr;
  decltype(&::SSL_CTX_set_options) ctx_set_options = nullptr;
  decltype(&::SSL_CTX_set_ciphersuites) ctx_set_ciphersuites = nullptr;
  decltype(&::SSL_CTX_set_num_tickets) ctx_set_num_tickets = nullptr;
  decltype(&::SSL_CTX_set_psk_use_session_callback) ctx_set_psk_use = nullptr;
  decltype(&::SSL_CTX_set_psk_find_session_callback) ctx_set_psk_find = nullptr;
  decltype(&::SSL_new) ssl_new = nullptr;
  decltype(&::SSL_free) ssl_free = nullptr;
  decltype(&::SSL_set_bio) set_bio = nullptr;
  decltype(&::SSL_set_verify) set_verify = nullptr;
  decltype(&::SSL_set_ex_data) set_ex_data = nullptr;
  decltype(&::SSL_get_ex_data) get_ex_data = nullptr;
  decltype(&::SSL_set_connect_state) set_connect_state = nullptr;
  decltype(&::SSL_set_accept_state) set_accept_state = nullptr;
  decltype(&::SSL_do_handshake) do_handshake = nullptr;
  decltype(&::SSL_read_ex) read_ex = nullptr;
  decltype(&::SSL_write_ex) write_ex = nullptr;
  decltype(&::SSL_key_update) key_update = nullptr;
  decltype(&::SSL_get_error) get_error = nullptr;
  decltype(&::SSL_session_reused) session_reused = nullptr;
  decltype(&::SSL_CIPHER_find) cipher_find = nullptr;
  decltype(&::SSL_SESSION_new) session_new = nullptr;
  decltype(&::SSL_SESSION_free) session_free = nullptr;
  decltype(&::SSL_SESSION_set1_master_key) session_set_key = nullptr;
  decltype(&::SSL_SESSION_set_cipher) session_set_cipher = nullptr;
  decltype(&::SSL_SESSION_set_protocol_version) session_set_version = nullptr;
  decltype(&::BIO_meth_new) meth_new = nullptr;
  decltype(&::BIO_meth_set_write_ex) meth_set_write = nullptr;
  decltype(&::BIO_meth_set_read_ex) meth_set_read = nullptr;
  decltype(&::BIO_meth_set_ctrl) meth_set_ctrl = nullptr;
  decltype(&::BIO_new) bio_new = nullptr;
  decltype(&::BIO_set_data) bio_set_data = nullptr;
  decltype(&::BIO_get_data) bio_get_data = nullptr;
  decltype(&::BIO_set_init) bio_set_init = nullptr;
  decltype(&::BIO_set_flags) bio_set_flags = nullptr;
  decltype(&::BIO_clear_flags) bio_clear_flags = nullptr;
  decltype(&::ERR_clear_error) clear_error = nullptr;
  decltype(&::ERR_peek_error) peek_error = nullptr;
  decltype(&::ERR_reason_error_string) reason = nullptr;
  decltype(&::OpenSSL_version) version = nullptr;

  Status status;
  SSL_CTX* busy = nullptr;
  SSL_CTX* quiet = nullptr;
  BIO_METHOD* method = nullptr;

  static const Callbacks& get() {
    static const Callbacks kLibrary;
    return kLibrary;
  }

 private:
  Callbacks() {
    load();
    if (status) prepare();
  }

  void load();
  void prepare();
  [[nodiscard]] SSL_CTX* make_context(long mode) const;

  static Tls& of(SSL* ssl) { return *static_cast<Tls*>(get().get_ex_data(ssl, 0)); }
  static SSL_SESSION* session_of(SSL* ssl);
  static int use_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                     std::size_t* identity_bytes, SSL_SESSION** session);
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes,
                      SSL_SESSION** session);
  static int bio_write(BIO* bio, const char* data, std::size_t size, std::size_t* done);
  static int bio_read(BIO* bio, char* data, std::size_t size, std::size_t* done);
  static long bio_ctrl(BIO* bio, int command, long number, void* data);
};

void Callbacks::load() {
  constexpr const char* kPurpose = "encrypts connections (TUTTI_TLS)";
  Library ssl("libssl.so.3", kPurpose);
  ssl.find(tls_method, "TLS_method");
  ssl.find(ctx_new, "SSL_CTX_new");
  ssl.find(ctx_ctrl, "SSL_CTX_ctrl");
  ssl.find(ctx_set_options, "SSL_CTX_set_options");
  ssl.find(ctx_set_ciphersuites, "SSL_CTX_set_ciphersuites");
  ssl.find(ctx_set_num_tickets, "SSL_CTX_set_num_tickets");
  ssl.find(ctx_set_psk_use, "SSL_CTX_set_psk_use_session_callback");
  ssl.find(ctx_set_psk_find, "SSL_CTX_set_psk_find_session_callback");
  ssl.find(ssl_new, "SSL_new");
  ssl.find(ssl_free, "SSL_free");
  ssl.find(set_bio, "SSL_set_bio");
  ssl.find(set_verify, "SSL_set_verify");
  ssl.find(set_ex_data, "SSL_set_ex_data");
  ssl.find(get_ex_data, "SSL_get_ex_data");
  ssl.find(set_connect_state, "SSL_set_connect_state");
  ssl.find(set_accept_state, "SSL_set_accept_state");
  ssl.find(do_handshake, "SSL_do_handshake");
  ssl.find(read_ex, "SSL_read_ex");
  ssl.find(write_ex, "SSL_write_ex");
  ssl.find(key_update, "SSL_key_update");
  ssl.find(get_error, "SSL_get_error");
  ssl.find(session_reused, "SSL_session_reused");
  ssl.find(cipher_find, "SSL_CIPHER_find");
  ssl.find(session_new, "SSL_SESSION_new");
  ssl.find(session_free, "SSL_SESSION_free");
  ssl.find(session_set_key, "SSL_SESSION_set1_master_key");
  ssl.find(session_set_cipher, "SSL_SESSION_set_cipher");
  ssl.find(session_set_version, "SSL_SESSION_set_protocol_version");
  status = ssl.status();
  if (!status) return;
  Library crypto("libcrypto.so.3", kPurpose);
  crypto.find(meth_new, "BIO_meth_new");
  crypto.find(meth_set_write, "BIO_meth_set_write_ex");
  crypto.find(meth_set_read, "BIO_meth_set_read_ex");
  crypto.find(meth_set_ctrl, "BIO_meth_set_ctrl");
  crypto.find(bio_new, "BIO_new");
  crypto.find(bio_set_data, "BIO_set_data");
  crypto.find(bio_get_data, "BIO_get_data");
  crypto.find(bio_set_init, "BIO_set_init");
  crypto.find(bio_set_flags, "BIO_set_flags");
  crypto.find(bio_clear_flags, "BIO_clear_flags");
  crypto.find(clear_error, "ERR_clear_error");
  crypto.find(peek_error, "ERR_peek_error");
  crypto.find(reason, "ERR_reason_error_string");
  crypto.find(version, "OpenSSL_version");
  status = crypto.status();
}

void Callbacks::prepare() {
  method = meth_new(BIO_TYPE_SOURCE_SINK, "tutti");
  const bool good = method != nullptr && meth_set_write(method, bio_write) == 1 &&
                    meth_set_read(method, bio_read) == 1 && meth_set_ctrl(method, bio_ctrl) == 1;
  if (good) {
    busy = make_context(0);
    quiet = make_context(SSL_MODE_RELEASE_BUFFERS);
  }
  if (busy == nullptr || quiet == nullptr) {
    status = Status(Errc::unsupported,
                    std::string("libssl refuses TLS 1.3 with ") + kCipherSuite +
                        "; its configuration (openssl.cnf, FIPS mode?) may forbid it");
  }
}

SSL_CTX* Callbacks::make_context(long mode) const {
  SSL_CTX* context = ctx_new(tls_method());
  if (context == nullptr) return nullptr;
  const bool good =
      ctx_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
      ctx_ctrl(context, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, nullptr) == 1 &&
      ctx_set_ciphersuites(context, kCipherSuite) == 1 && ctx_set_num_tickets(context, 0) == 1;
  if (!good) return nullptr;
  ctx_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  ctx_ctrl(context, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  ctx_ctrl(context, SSL_CTRL_MODE, mode, nullptr);
  ctx_set_psk_use(context, use_key);
  ctx_set_psk_find(context, find_key);
  return context;
}

SSL_SESSION* Callbacks::session_of(SSL* ssl) {
  const Callbacks& library = get();
  const Digest& key = of(ssl).key_;
  SSL_SESSION* session = library.session_new();
  if (session == nullptr) return nullptr;
  const SSL_CIPHER* cipher = library.cipher_find(ssl, kCipherNumber.data());
  if (cipher != nullptr &&
      library.session_set_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                              key.size()) == 1 &&
      library.session_set_cipher(session, cipher) == 1 &&
      library.session_set_version(session, TLS1_3_VERSION) == 1)
    return session;
  library.session_free(session);
  return nullptr;
}

int Callbacks::use_key(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity,
                       std::size_t* identity_bytes, SSL_SESSION** session) {
  *session = session_of(ssl);
  *identity = kIdentity.data();
  *identity_bytes = kIdentity.size();
  return *session != nullptr ? 1 : 0;
}

int Callbacks::find_key(SSL* ssl, const unsigned char* identity, std::size_t identity_bytes,
                        SSL_SESSION** session) {
  *session = nullptr;  // without one the handshake fails: there is no certificate either
  if (!std::ranges::equal(std::span(identity, identity_bytes), kIdentity)) return 1;
  *session = session_of(ssl);
  return *session != nullptr ? 1 : 0;
}

int Callbacks::bio_write(BIO* bio, const char* data, std::size_t size, std::size_t* done) {
  Tls& tls = *static_cast<Tls*>(get().bio_get_data(bio));
  get().bio_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  *done = 0;
  try {
    const auto* bytes = reinterpret_cast<const std::byte*>(data);
    tls.out_.insert(tls.out_.end(), bytes, bytes + size);
  } catch (const std::bad_alloc&) {
    tls.error_ = ENOMEM;
    return 0;
  }
  *done = size;
  return 1;
}

int Callbacks::bio_read(BIO* bio, char* data, std::size_t size, std::size_t* done) {
  Tls& tls = *static_cast<Tls*>(get().bio_get_data(bio));
  get().bio_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
  *done = tls.fetch(data, size);
  if (*done > 0) return 1;
  if (tls.starved_) get().bio_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
  return 0;
}

long Callbacks::bio_ctrl(BIO* /*bio*/, int command, long /*number*/, void* /*data*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

Result<std::string> Tls::library() {
  const Callbacks& library = Callbacks::get();
  if (!library.status) return library.status;
  return std::string(library.version(OPENSSL_VERSION));
}

Result<std::unique_ptr<Tls>> Tls::start(int fd, const Digest& key, const Options& options) {
  const Callbacks& library = Callbacks::get();
  if (!library.status) return library.status;
  const Status no_memory(Errc::resource, "no memory for an encrypted connection");
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
    may_have_unread_ = true;  // frames may have come behind the peer's last word
    return true;
  }
  if (waits) return error_ != 0 ? os::system_error("cannot send", error_) : Result<bool>(false);
  if (failed.ended)
    return Status(Errc::peer_lost, "it closed the connection before it was encrypted");
  if (error_ != 0) return os::system_error("cannot encrypt the connection", error_);
  return Status(Errc::refused, "the connection could not be encrypted (" + trouble_ +
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
        // What has come before is told first.
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
  // To the front: with more behind it the buffer would have to grow.
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
