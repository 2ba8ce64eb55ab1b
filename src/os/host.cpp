#include "os/host.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <fstream>

#include "base/shown.hpp"
#include "os/fd.hpp"
#include "os/system_error.hpp"

namespace tutti::os {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown";
  return base::shown_on_line(name.data());
}

Result<std::string> boot_id() {
  constexpr const char* kPath = "/proc/sys/kernel/random/boot_id";
  const Fd fd(open(kPath, O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return system_error("cannot read the boot id", errno);
  std::array<char, 64> text{};
  const ssize_t got = read(fd.get(), text.data(), text.size());
  if (got < 0) return system_error("cannot read the boot id", errno);
  std::string id(text.data(), static_cast<std::size_t>(got));
  while (!id.empty() && id.back() == '\n') id.pop_back();
  if (id.empty()) return Outcome(Errc::unsupported, "this kernel tells no boot id");
  return id;
}

namespace {

Result<std::uint64_t> inode_of(const char* path, const char* problem) {
  struct stat info {};
  if (stat(path, &info) != 0) return system_error(problem, errno);
  return static_cast<std::uint64_t>(info.st_ino);
}

}  // namespace

Result<std::uint64_t> network_namespace() {
  return inode_of("/proc/thread-self/ns/net", "cannot tell the network namespace");
}

Result<std::uint64_t> pid_namespace() {
  return inode_of("/proc/thread-self/ns/pid", "cannot tell the pid namespace");
}

std::uint64_t user_outside() {
  const std::uint64_t user = geteuid();
  std::ifstream map("/proc/self/uid_map");
  std::uint64_t inside = 0;
  std::uint64_t outside = 0;
  std::uint64_t count = 0;
  while (map >> inside >> outside >> count) {
    if (user >= inside && user - inside < count) return outside + (user - inside);
  }
  return user;
}

}  // namespace tutti::os
