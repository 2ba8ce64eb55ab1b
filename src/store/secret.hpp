#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tutti/error.hpp>

#include "os/fd.hpp"

namespace tutti::store {

inline constexpr std::size_t kMadeSecretBytes = 32;
inline constexpr std::size_t kLeastSecretBytes = 32;
inline constexpr std::size_t kMostSecretBytes = 4096;

/// An error if a secret must not have this many bytes; `what` names its origin.
Status check_secret(std::string_view what, std::size_t bytes);

/// The bytes of a text that is a secret.
[[nodiscard]] std::vector<std::byte> to_secret(std::string_view text);

/// Makes a new secret in memory that children can inherit and that nobody can change.
struct MadeSecret {
  std::vector<std::byte> secret;
  os::Fd fd;  ///< closed on exec
};
Result<MadeSecret> make_secret();
/// The same for an existing secret.
Result<MadeSecret> keep_secret(std::vector<std::byte> secret);

/// Reads it from a descriptor that the launcher left open for us. It can be read again.
Result<std::vector<std::byte>> read_secret_fd(int fd);
/// Reads it from a file, which must belong to this user (or root) and be closed to all others. The
/// group may read a file of root: Kubernetes mounts secrets like that.
Result<std::vector<std::byte>> read_secret_file(const std::string& path);
/// Which users beside its owner may read a secret.
enum class Readers : unsigned char { owner, group_of_root };
/// The same for an open file. `what` names it in errors, `path` in their advice.
Result<std::vector<std::byte>> read_own_secret(int fd, const std::string& what,
                                               const std::string& path, Readers readers);

}  // namespace tutti::store
