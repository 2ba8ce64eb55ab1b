#include "os/private_listener.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <ctime>
#include <exception>
#include <vector>

#include "base/format.hpp"
#include "os/folder.hpp"
#include "os/socket.hpp"
#include "os/system_error.hpp"

namespace tutti::os {
namespace {

constexpr mode_t kModeOfOthers = 077;
constexpr auto kOldAfter = std::chrono::minutes(1);
// A file has this ending until its owner listens: a file without it that nobody listens at is left.
constexpr std::string_view kNew = ".new";
// Each look is a connection to a process that lives, if it does.
constexpr std::size_t kMostLooks = 64;
// Another process may remove the folder at any time while no file is in it.
constexpr int kTries = 16;

bool was_removed(const Outcome& why) { return why.code() == Errc::invalid_argument; }  // ENOENT

/// The id of the folder, which is made if it is not there.
Result<std::string> enter(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) (void)::chmod(folder.c_str(), 0700);  // despite a umask
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) return system_error(folder, errno);
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & kModeOfOthers) != 0) {
    return Outcome(Errc::refused, folder + " is not a folder of this user alone (mode 0700)");
  }
  return base::format("{:x}:{:x}", info.st_dev, info.st_ino);
}

}  // namespace

Result<PrivateListener> PrivateListener::open(std::string_view name, std::string_view secret_end) {
  Outcome why;
  std::vector<std::string> folders;
  for (const char* const parent : {"/dev/shm", "/tmp"})
    folders.push_back(base::format("{}/tutti-ranks-{}", parent, ::geteuid()));
  if (!secret_end.empty()) folders.push_back(base::format("{}-{}", folders.back(), secret_end));
  for (const std::string& folder : folders) {
    for (int tries = 0; tries < kTries; ++tries) {
      Result<std::string> id = enter(folder);
      if (!id) {
        why = id.status();
        if (was_removed(why)) continue;
        break;
      }
      PrivateListener made;
      made.folder_ = folder;
      made.path_ = made.path_of(name);
      const std::string fresh = made.path_ + std::string(kNew);
      Result<Fd> fd = listen_unix(fresh);
      if (fd && ::rename(fresh.c_str(), made.path_.c_str()) != 0)
        fd = system_error(made.path_, errno);
      if (!fd) {
        why = fd.status();
        made.path_.clear();
        if (was_removed(why)) continue;
        break;
      }
      made.fd_ = std::move(*fd);
      made.folder_id_ = std::move(*id);
      made.maker_ = ::getpid();
      // The folder may have been made anew since. With our file in it, it stays.
      if (Result<std::string> again = enter(folder); again && *again == made.folder_id_)
        return made;
    }
  }
  return why.ok() ? Outcome(Errc::resource, "no folder for sockets of this user") : why;
}

PrivateListener& PrivateListener::operator=(PrivateListener&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::move(other.fd_);
    folder_ = std::move(other.folder_);
    folder_id_ = std::move(other.folder_id_);
    path_ = std::exchange(other.path_, {});
    maker_ = other.maker_;
  }
  return *this;
}

std::string PrivateListener::path_of(std::string_view name) const {
  return base::format("{}/{}", folder_, name);
}

void PrivateListener::sweep() const noexcept {
  if (folder_.empty() || maker_ != ::getpid()) return;
  try {
    std::size_t looked = 0;
    for (const std::string& name : names_in(folder_).value_or(std::vector<std::string>())) {
      struct stat info {};
      const std::string path = path_of(name);
      if (path == path_ || ::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) continue;
      const bool old = std::chrono::seconds(::time(nullptr) - info.st_mtim.tv_sec) > kOldAfter;
      if (path.ends_with(kNew) && !old) continue;  // its owner may be about to listen
      if (++looked > kMostLooks) break;
      const Result<Fd> probe = connect_unix(path);
      if (!probe && probe.status().code() == Errc::refused) (void)::unlink(path.c_str());
    }
  } catch (const std::exception&) {
    // The next job sweeps.
  }
  (void)::rmdir(folder_.c_str());  // fails while files are there
}

void PrivateListener::close() noexcept {
  if (!path_.empty() && maker_ == ::getpid()) {
    (void)::unlink(path_.c_str());
    (void)::rmdir(folder_.c_str());  // fails while others have files there
  }
  path_.clear();
  fd_.reset();
}

}  // namespace tutti::os
