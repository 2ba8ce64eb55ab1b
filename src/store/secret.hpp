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

/// An error unless a secret may have so many bytes; `what` says where it comes from.
Status check_secret(std::string_view what, std::size_t bytes);

/// A new secret in memory that children can inherit and nobody can change.
struct MadeSecret {
  std::vector<std::byte> secret;
  os::Fd fd;  ///< closed on exec
};
Result<MadeSecret> make_secret();
/// The same of a secret that is there already.
Result<MadeSecret> keep_secret(std::vector<std::byte> secret);

/// From a descriptor that the launcher left open for us. Reading does not use it up.
Result<std::vector<std::byte>> read_secret_fd(int fd);
/// From a file, which must belong to this user (or root) and be closed to everybody else. The group
/// may read what belongs to root: Kubernetes mounts secrets so.
Result<std::vector<std::byte>> read_secret_file(const std::string& path);
/// Which users beside its owner may read a secret.
enum class Readers : unsigned char { owner, group_of_root };
/// The same of an open file. `what` names it in errors, `path` in what they advise.
Result<std::vector<std::byte>> read_own_secret(int fd, const std::string& what,
                                               const std::string& path, Readers readers);

}  // namespace tutti::store
