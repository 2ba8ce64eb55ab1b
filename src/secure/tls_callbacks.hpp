#pragma once

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstddef>

#include "secure/tls.hpp"

namespace tutti::secure {

/// The functions of libssl that we call, and ours that libssl calls.
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
