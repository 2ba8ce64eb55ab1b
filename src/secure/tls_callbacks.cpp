#include "secure/tls_callbacks.hpp"

#include <algorithm>
#include <array>
#include <new>
#include <span>
#include <string>

#include "secure/openssl.hpp"

namespace tutti::secure {
namespace {

constexpr const char* kCipherSuite = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kCipherNumber = {0x13, 0x01};
// The key belongs to this one connection, so there is nothing to choose by name.
constexpr std::array<unsigned char, 5> kIdentity = {'t', 'u', 't', 't', 'i'};

}  // namespace

void Callbacks::load() {
  constexpr const char* kPurpose = "encrypts connections (TUTTI_TLS)";
  Library ssl("libssl.so.3", kPurpose);
#define TUTTI_FIND(member, function) ssl.find(member, #function);
  TUTTI_LIBSSL(TUTTI_FIND)
#undef TUTTI_FIND
  status = ssl.status();
  if (!status) return;
  Library crypto("libcrypto.so.3", kPurpose);
#define TUTTI_FIND(member, function) crypto.find(member, #function);
  TUTTI_LIBCRYPTO(TUTTI_FIND)
#undef TUTTI_FIND
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
    status = Outcome(Errc::unsupported,
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

}  // namespace tutti::secure
