#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tutti/error.hpp>
#include <tutti/secret_bytes.hpp>

#include "os/fd.hpp"

namespace tutti::store {

inline constexpr std::size_t kMadeSecretBytes = 32;
inline constexpr std::size_t kLeastSecretBytes = 32;
inline constexpr std::size_t kMostSecretBytes = 4096;

/// An error if a secret must not have this many bytes; `what` names its origin.
Outcome check_secret(std::string_view what, std::size_t bytes);

/// The bytes of a text that is a secret.
[[nodiscard]] SecretBytes to_secret(std::string_view text);

/// Makes a new secret in memory that a launcher hands to its ranks (os/handed_memory.hpp). Nobody
/// can change it, and no other user can open it.
struct MadeSecret {
  SecretBytes secret;
  os::Fd fd;  ///< closed on exec
};
Result<MadeSecret> make_secret();
/// The same for an existing secret.
Result<MadeSecret> keep_secret(SecretBytes secret);

/// Reads the secret that a launcher hands to this process; `text` names its memory. It can be read
/// again.
Result<SecretBytes> read_handed_secret(std::string_view text);
/// Reads it from a file, which must belong to this user (or root) and be closed to all others. The
/// group may read a file of root: Kubernetes mounts secrets like that.
Result<SecretBytes> read_secret_file(const std::string& path);
/// Which users beside its owner may read a secret.
enum class Readers : unsigned char { owner, group_of_root };
/// The same for an open file. `what` names it in errors, `path` in their advice.
Result<SecretBytes> read_own_secret(int fd, const std::string& what, const std::string& path,
                                    Readers readers);

}  // namespace tutti::store
