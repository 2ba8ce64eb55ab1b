#include "store/file_locks.hpp"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "os/system_error.hpp"

namespace tutti::store {

Outcome io_error(std::string_view what) {
  return Outcome(Errc::store, std::string(os::system_error(what, errno).message()));
}

Result<bool> try_lock(int fd, off_t at, short kind) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = at;
  lock.l_len = 1;
  if (::fcntl(fd, F_OFD_SETLK, &lock) == 0) return true;
  if (errno == EAGAIN || errno == EACCES || errno == EINTR) return false;
  return io_error("cannot lock the file; does its file system have locks?");
}

}  // namespace tutti::store
