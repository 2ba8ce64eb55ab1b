#include "os/descriptors.hpp"

#include <fcntl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "os/fd.hpp"
#include "os/folder.hpp"

namespace tutti::os {

std::optional<std::size_t> free_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  errno = 0;
  const auto open = names_in("/proc/self/fd");
  if (!open && errno == EMFILE) return 0;  // not even one, for the look itself
  if (!open) return std::nullopt;
  const std::size_t used = open->size() - 1;  // one of them is that of looking there
  return static_cast<std::size_t>(limit.rlim_cur) - std::min<std::size_t>(used, limit.rlim_cur);
}

Outcome ensure_descriptors(std::size_t needed, const std::string& what) {
  const std::optional<std::size_t> free = free_descriptors();
  rlimit limit{};
  if (!free || *free >= needed || getrlimit(RLIMIT_NOFILE, &limit) != 0) return Outcome();
  const rlim_t wanted = limit.rlim_cur + (needed - *free);
  // A multiple of what select() can take: other ranks of this process may ask at the same time.
  const rlim_t rounded = (wanted + FD_SETSIZE - 1) / FD_SETSIZE * FD_SETSIZE;
  const rlimit raised{std::min(rounded, limit.rlim_max), limit.rlim_max};
  if (raised.rlim_cur >= wanted && setrlimit(RLIMIT_NOFILE, &raised) == 0) return Outcome();
  return Outcome(Errc::resource,
                 what + " takes " + std::to_string(needed) +
                     " open files, and this process may open only " + std::to_string(*free) +
                     " more: it needs a hard limit of " + std::to_string(wanted) + ", which is " +
                     std::to_string(limit.rlim_max) + " now; allow it more (ulimit -Hn)");
}

void close_descriptors_from(int first) {
  if (syscall(SYS_close_range, static_cast<unsigned>(first), ~0U, 0U) == 0) return;
  for (const std::string& name : names_in("/proc/self/fd").value_or(std::vector<std::string>()))
    if (const int fd = std::atoi(name.c_str()); fd >= first) ::close(fd);
}

void open_standard_streams() noexcept {
  // Each gets the lowest number that is free, so a loop upwards fills the gaps.
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY) < 0) return;
  }
}

bool descriptors_run_out(std::size_t spare) noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  // The kernel gives the lowest number that is free. A forked child may have a copy of this one.
  const Fd next(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!next.valid()) return errno == EMFILE || errno == ENFILE;
  const rlim_t kept = std::min<rlim_t>(spare, limit.rlim_cur / 4);
  return static_cast<rlim_t>(next.get()) >= limit.rlim_cur - kept;
}

rlimit raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return {RLIM_INFINITY, RLIM_INFINITY};
  const rlimit most{limit.rlim_max, limit.rlim_max};
  (void)setrlimit(RLIMIT_NOFILE, &most);  // what was allowed before stays so
  return limit;
}

}  // namespace tutti::os
