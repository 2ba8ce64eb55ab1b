#include "os/handed_memory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>

#include "base/format.hpp"
#include "os/system_error.hpp"

namespace tutti::os {
namespace {

struct Name {
  int fd = -1;
  std::uint64_t inode = 0;
  pid_t keeper = 0;
};

std::optional<Name> parse(std::string_view text) {
  std::array<std::uint64_t, 3> numbers{};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, numbers[i]);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    if (i + 1 == numbers.size()) break;
    if (!text.starts_with(':')) return std::nullopt;
    text.remove_prefix(1);
  }
  constexpr std::uint64_t kMost = INT32_MAX;
  if (!text.empty() || numbers[0] > kMost || numbers[2] == 0 || numbers[2] > kMost)
    return std::nullopt;
  return Name{static_cast<int>(numbers[0]), numbers[1], static_cast<pid_t>(numbers[2])};
}

/// Inodes of other file systems may have the same number, but only a memfd that was made for it has
/// seals beside that of sealing itself.
bool is_named(const Name& name, int fd) noexcept {
  struct stat info {};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_ino != name.inode) return false;
  const int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & F_SEAL_GROW) != 0;
}

}  // namespace

Result<std::string> name_handed(const Fd& memory) {
  struct stat info {};
  if (fstat(memory.get(), &info) != 0) return system_error("cannot look at memory of ours", errno);
  return base::format("{}:{}:{}", memory.get(), info.st_ino, getpid());
}

Result<Fd> find_handed(std::string_view text, HandedAccess access, const std::string& what) {
  const std::optional<Name> name = parse(text);
  if (!name) {
    return Outcome(Errc::invalid_argument,
                   what +
                       " is named wrongly: it must be DESCRIPTOR:INODE:PROCESS, three numbers as "
                       "a launcher sets them");
  }
  const bool open_here = fcntl(name->fd, F_GETFD) >= 0;
  if (open_here && is_named(*name, name->fd)) {
    fcntl(name->fd, F_SETFD, FD_CLOEXEC);
    Fd copy(fcntl(name->fd, F_DUPFD_CLOEXEC, 0));
    if (!copy.valid()) return system_error("cannot use " + what, errno);
    return copy;
  }
  const std::string path = base::format("/proc/{}/fd/{}", name->keeper, name->fd);
  // Looked at before it is opened: opening a device or a pipe of some other process may do harm.
  struct stat info {};
  std::string why;
  if (stat(path.c_str(), &info) != 0) {
    why = std::generic_category().message(errno);
  } else if (S_ISREG(info.st_mode) && info.st_ino == name->inode) {
    const int flags = access == HandedAccess::read ? O_RDONLY : O_RDWR;
    Fd opened(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
    if (opened.valid() && is_named(*name, opened.get())) return opened;
    why = opened.valid() ? "it is another file" : std::generic_category().message(errno);
  } else {
    why = "it is another file";
  }
  return Outcome(
      Errc::invalid_argument,
      base::format("{} cannot be reached: descriptor {} of this process is {}, and {} of the "
                   "launcher cannot be opened ({})",
                   what, name->fd, open_here ? "another file" : "not open", path, why));
}

}  // namespace tutti::os
