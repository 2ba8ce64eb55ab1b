#include "group/trusted_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "os/mapped_file.hpp"

namespace tutti::group {
namespace {

namespace fs = std::filesystem;

/// Where a user is shown that has no number in the user namespace of this process: many may be.
constexpr uid_t kUnknownUser = 65534;

/// Those whom this process trusts beside root.
struct Owners {
  uid_t user = ::geteuid();
  uid_t of_program = user;
  gid_t group_of_program = 0;  ///< that may write our own folder
  Owners() {
    struct stat about {};
    if (::stat(own_file().c_str(), &about) == 0) of_program = about.st_uid;
    if (::stat(own_file().parent_path().c_str(), &about) == 0 && (about.st_mode & S_IWGRP) != 0)
      group_of_program = about.st_gid;
  }
};

/// True if nobody else can write it. `above`: a folder above, in which others may make files of
/// their own if they can take away none of ours (/tmp).
bool is_ours(const fs::path& path, const Owners& owners, bool above) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return false;
  const bool known = about.st_uid != kUnknownUser &&
                     (about.st_uid == owners.user || about.st_uid == owners.of_program);
  if (about.st_uid != 0 && !known) return false;
  if (above && (about.st_mode & S_ISVTX) != 0) return true;
  // A group with the number of its user is that user's own.
  const bool group = (about.st_mode & S_IWGRP) != 0 && about.st_gid != about.st_uid &&
                     about.st_gid != owners.group_of_program;
  return !group && (about.st_mode & S_IWOTH) == 0;
}

bool are_ours_above(const fs::path& folder, const Owners& owners) {
  const fs::path& own = own_file();
  for (fs::path above = folder.parent_path();; above = above.parent_path()) {
    const auto [rest, ignored] = std::mismatch(above.begin(), above.end(), own.begin(), own.end());
    if (rest == above.end()) return true;
    if (!is_ours(above, owners, true)) return false;
    if (above == above.root_path()) return true;  // our own file is unknown
  }
}

}  // namespace

const fs::path& own_file() {
  static const fs::path kFile = os::mapped_file(reinterpret_cast<const void*>(&own_file));
  return kFile;
}

std::optional<fs::path> trusted_folder(const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  const Owners owners;
  if (error || !is_ours(real, owners, false) || !are_ours_above(real, owners)) return std::nullopt;
  return real;
}

std::optional<fs::path> trusted_file(const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  // The folder of a link as well as that of the file.
  if (error || !is_ours(real, Owners(), false) || !trusted_folder(file.parent_path()) ||
      !trusted_folder(real.parent_path()))
    return std::nullopt;
  return real;
}

}  // namespace tutti::group
