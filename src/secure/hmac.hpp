#pragma once

#include <array>
#include <cstddef>
#include <span>

#include <tutti/error.hpp>

// Proofs that both ends know the same secret. OpenSSL's libcrypto is loaded at the first call, so
// that a process without connections does not map it.
namespace tutti::secure {

inline constexpr std::size_t kDigestBytes = 32;
using Digest = std::array<std::byte, kDigestBytes>;

/// HMAC-SHA256 (RFC 2104). Fails (unsupported) where libcrypto cannot be loaded.
Result<Digest> hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data);

inline constexpr std::size_t kKeyIdBytes = 8;
using KeyId = std::array<std::byte, kKeyIdBytes>;

/// A public id, by which two processes see that their secrets differ: the first bytes of
/// HMAC-SHA256(secret, "tutti key id"). Zeros without a secret.
Result<KeyId> key_id(std::span<const std::byte> secret);

/// Compares in a time that does not depend on where they differ; the lengths are no secret.
[[nodiscard]] bool equal_constant_time(std::span<const std::byte> a,
                                       std::span<const std::byte> b) noexcept;

/// Fills with unpredictable bytes from the kernel.
Outcome random_bytes(std::span<std::byte> bytes);

}  // namespace tutti::secure
