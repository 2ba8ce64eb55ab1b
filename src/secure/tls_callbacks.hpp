#pragma once

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstddef>

#include "secure/tls.hpp"

namespace tutti::secure {

// X(member, function) for each function that we call.
#define TUTTI_LIBSSL(X)                                      \
  X(tls_method, TLS_method)                                  \
  X(ctx_new, SSL_CTX_new)                                    \
  X(ctx_ctrl, SSL_CTX_ctrl)                                  \
  X(ctx_set_options, SSL_CTX_set_options)                    \
  X(ctx_set_ciphersuites, SSL_CTX_set_ciphersuites)          \
  X(ctx_set_num_tickets, SSL_CTX_set_num_tickets)            \
  X(ctx_set_psk_use, SSL_CTX_set_psk_use_session_callback)   \
  X(ctx_set_psk_find, SSL_CTX_set_psk_find_session_callback) \
  X(ssl_new, SSL_new)                                        \
  X(ssl_free, SSL_free)                                      \
  X(set_bio, SSL_set_bio)                                    \
  X(set_verify, SSL_set_verify)                              \
  X(set_ex_data, SSL_set_ex_data)                            \
  X(get_ex_data, SSL_get_ex_data)                            \
  X(set_connect_state, SSL_set_connect_state)                \
  X(set_accept_state, SSL_set_accept_state)                  \
  X(do_handshake, SSL_do_handshake)                          \
  X(read_ex, SSL_read_ex)                                    \
  X(write_ex, SSL_write_ex)                                  \
  X(key_update, SSL_key_update)                              \
  X(get_error, SSL_get_error)                                \
  X(session_reused, SSL_session_reused)                      \
  X(cipher_find, SSL_CIPHER_find)                            \
  X(session_new, SSL_SESSION_new)                            \
  X(session_free, SSL_SESSION_free)                          \
  X(session_set_key, SSL_SESSION_set1_master_key)            \
  X(session_set_cipher, SSL_SESSION_set_cipher)              \
  X(session_set_version, SSL_SESSION_set_protocol_version)

#define TUTTI_LIBCRYPTO(X)                 \
  X(meth_new, BIO_meth_new)                \
  X(meth_set_write, BIO_meth_set_write_ex) \
  X(meth_set_read, BIO_meth_set_read_ex)   \
  X(meth_set_ctrl, BIO_meth_set_ctrl)      \
  X(bio_new, BIO_new)                      \
  X(bio_set_data, BIO_set_data)            \
  X(bio_get_data, BIO_get_data)            \
  X(bio_set_init, BIO_set_init)            \
  X(bio_set_flags, BIO_set_flags)          \
  X(bio_clear_flags, BIO_clear_flags)      \
  X(clear_error, ERR_clear_error)          \
  X(peek_error, ERR_peek_error)            \
  X(reason, ERR_reason_error_string)       \
  X(version, OpenSSL_version)

/// The functions of libssl that we call, and ours that libssl calls.
struct Callbacks {
#define TUTTI_MEMBER(member, function) decltype(&::function) member = nullptr;
  TUTTI_LIBSSL(TUTTI_MEMBER)
  TUTTI_LIBCRYPTO(TUTTI_MEMBER)
#undef TUTTI_MEMBER

  Outcome status;
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

}  // namespace tutti::secure
