#include "os/fd.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tutti::os {

int above_standard_streams(int fd) noexcept {
  const int error = errno;
  const bool is_private = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
  const int moved = fcntl(fd, is_private ? F_DUPFD_CLOEXEC : F_DUPFD, 3);
  if (moved >= 0) ::close(fd);
  errno = error;
  return moved >= 0 ? moved : fd;
}

ssize_t read_at(int fd, std::span<std::byte> to, off_t at) noexcept {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t got =
        ::pread(fd, to.data() + done, to.size() - done, at + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

}  // namespace tutti::os
