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

}  // namespace tutti::os
