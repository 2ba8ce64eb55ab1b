#include "apps/bench/scratch_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace tutti::bench {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "tutti-bench.";
/// Younger ones may belong to a run that has made its folder and not yet locked it.
constexpr time_t kLeftAfterSeconds = 60;

/// In shared memory where there is such a folder: files that a library maps there never reach a
/// disk, and what a killed library leaves under TMPDIR goes with ours.
fs::path base() {
  return ::access("/dev/shm", W_OK | X_OK) == 0 ? fs::path("/dev/shm") : fs::temp_directory_path();
}

bool left_behind(const fs::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  struct stat info {};
  const bool left = ::fstat(fd, &info) == 0 && info.st_uid == ::geteuid() &&
                    info.st_mtime + kLeftAfterSeconds < ::time(nullptr) &&
                    ::flock(fd, LOCK_EX | LOCK_NB) == 0;
  ::close(fd);
  return left;
}

void remove_left(const fs::path& where) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(where, ignored)) {
    const bool named = entry.path().filename().string().starts_with(kPrefix);
    if (named && left_behind(entry.path())) fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

ScratchFolder::ScratchFolder() {
  remove_left(base());
  std::string name = (base() / kPrefix).string() + "XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error("cannot make a folder in " + base().string() + ": " +
                             std::strerror(errno));
  }
  path_ = name;
  lock_ = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) ::flock(lock_, LOCK_EX | LOCK_NB);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

}  // namespace tutti::bench
