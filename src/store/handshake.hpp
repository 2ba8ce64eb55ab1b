#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <tutti/error.hpp>

#include "secure/hmac.hpp"

// How the two ends of a store connection get to know each other: frames of fixed size, so that a
// stranger can make us keep at most 64 bytes. Pure functions; drawn in docs/wire-store.md.
//
//   client                                   server
//   hello: magic, version, generation, -->
//          job, nonce, key id
//                                       <--  reply: refusal or ok, nonce, key id, proof(server)
//   proof(client)                       -->
//                                       <--  verdict
//
// proof(role) = HMAC-SHA256(secret, role label, hello, reply without its proof); zeros where
// neither side has a secret. Each side's nonce is in what the other side signs, so nothing can be
// replayed, and the labels differ, so nothing can be reflected.
//
// Where both sides encrypt, TLS begins behind the proof of the client, who says it once more
// inside, with his first request behind it as without TLS. Whoever has not proven himself so never
// gets to speak TLS.
namespace tutti::store {

inline constexpr std::uint16_t kStoreVersion = 3;
inline constexpr std::size_t kNonceBytes = 24;
inline constexpr std::size_t kProofBytes = 32;
inline constexpr std::size_t kHelloBytes = 64;
inline constexpr std::size_t kReplyBytes = 80;
inline constexpr std::size_t kVerdictBytes = 8;
inline constexpr std::size_t kOriginBytes = 256;

/// Generations from here on have no order: who looks for one of them, or comes to one of them and
/// looks for another, tries again until that one is served.
inline constexpr std::uint32_t kUnorderedGeneration = std::uint32_t{1} << 31;

using Hello = std::array<std::byte, kHelloBytes>;
using Reply = std::array<std::byte, kReplyBytes>;
using Proof = std::array<std::byte, kProofBytes>;
using Verdict = std::array<std::byte, kVerdictBytes>;
/// Text, zeros behind it: the server's host and, behind a line end, where its secret comes from.
using Origin = std::array<std::byte, kOriginBytes>;

enum class Refusal : std::uint32_t {
  none = 0,
  version = 1,        ///< another version of this protocol
  secret_needed = 2,  ///< the server has a secret, the client none
  no_secret = 3,      ///< the client has a secret, the server none
  other_job = 4,
  wrong_secret = 5,
  earlier_generation = 6,  ///< the server may make room for the one the client looks for
  later_generation = 7,    ///< the client is late
  encryption_needed = 8,   ///< the server encrypts, the client does not
  no_encryption = 9,       ///< the client encrypts, the server does not
  other_key = 10,          ///< the ids of the secrets differ; an Origin follows the reply
};

/// What one side knows of the job.
struct Credentials {
  std::span<const std::byte> secret;
  std::string_view job;
  std::uint32_t generation = 0;
  bool encrypts = false;         ///< needs a secret
  std::string_view source = {};  ///< of the secret: JobSecret::source
};

Result<Hello> make_hello(const Credentials& mine);
/// Whether bytes that may be a hello still can be one; called with what has come so far.
[[nodiscard]] bool may_be_hello(std::span<const std::byte> bytes) noexcept;
/// The server's answer to a hello, and why it refuses if it does.
struct HelloAnswer {
  Reply reply;
  Refusal refusal = Refusal::none;
};
Result<HelloAnswer> answer_hello(const Hello& hello, const Credentials& mine);
/// Ok if the server is the one we look for; else `refused` with the reason, or `peer_left` if the
/// one we look for is still to come.
Status check_reply(const Hello& hello, const Reply& reply, const Credentials& mine);
/// Whether an Origin follows the reply.
[[nodiscard]] bool tells_origin(const Reply& reply) noexcept;
Origin make_origin(const Credentials& mine);
/// The refusal of a server that has another key, with what it has told of it.
Status describe_other_key(const Origin& theirs, const Credentials& mine);
Result<Proof> make_client_proof(const Hello& hello, const Reply& reply, const Credentials& mine);
Result<bool> check_client_proof(const Hello& hello, const Reply& reply, const Proof& proof,
                                const Credentials& mine);
/// Of this one connection: HMAC-SHA256(secret, "tutti store 2 tls key", hello, reply without
/// proof).
Result<secure::Digest> key_of_encryption(const Hello& hello, const Reply& reply,
                                         const Credentials& mine);
Verdict make_verdict(Refusal refusal);
Status check_verdict(const Verdict& verdict);

}  // namespace tutti::store
