#include "store/file_sweep.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "base/forks.hpp"
#include "base/index.hpp"
#include "os/fd.hpp"
#include "os/folder.hpp"
#include "store/file_locks.hpp"
#include "store/job_secret.hpp"
#include "store/log.hpp"

namespace tutti::store {
namespace {

bool is_private_name(std::string_view text) {
  return text.size() == kPrivateNameCharacters &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool locks(int fd, off_t at) {
  auto got = try_lock(fd, at, F_WRLCK);
  return got && *got;
}

/// Others may have put anything there: a link, a pipe, a file of their own.
void remove_unused(const std::string& path) {
  const os::Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      info.st_uid != ::geteuid())
    return;
  std::array<std::byte, kLogHeadBytes> head{};
  const ssize_t got = ::pread(fd.get(), head.data(), head.size(), 0);
  const LogHead kind = check_head(std::span(head).first(base::as_size(std::max(got, ssize_t{0}))));
  if (got < 0 || kind == LogHead::foreign || kind == LogHead::other_version) return;
  if (!locks(fd.get(), kTurnAt)) return;
  // Others join and remove only in their turn, so the path is still that of this file.
  if (locks(fd.get(), kPresenceAt) && ::fstat(fd.get(), &info) == 0 && info.st_nlink > 0)
    ::unlink(path.c_str());
  // A child that is forked now has a copy of the descriptor, which would keep them.
  for (const off_t at : {kPresenceAt, kTurnAt}) (void)try_lock(fd.get(), at, F_UNLCK);
}

}  // namespace

void sweep_files(const std::string& folder, std::string_view begin) noexcept {
  try {
    for (const std::string& name : os::names_in(folder).value_or(std::vector<std::string>()))
      if (name.starts_with(begin) && is_private_name(std::string_view(name).substr(begin.size())))
        remove_unused(folder + "/" + name);
  } catch (const std::exception&) {
    // Without memory: the next job tries again.
  }
}

}  // namespace tutti::store
