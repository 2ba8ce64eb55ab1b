#include "store/secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "base/index.hpp"
#include "os/file_size_signal.hpp"
#include "os/system_error.hpp"
#include "secure/hmac.hpp"

namespace tutti::store {
namespace {

Status invalid(std::string text) { return Status(Errc::invalid_argument, std::move(text)); }

Result<std::vector<std::byte>> read_all(int fd, const std::string& what) {
  std::vector<std::byte> secret(kMostSecretBytes + 1);
  std::size_t size = 0;
  while (size < secret.size()) {
    const ssize_t got =
        pread(fd, secret.data() + size, secret.size() - size, static_cast<off_t>(size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os::system_error("cannot read " + what, errno);
    if (got == 0) break;
    size += base::as_size(got);
  }
  if (Status s = check_secret(what, size); !s) return s;
  secret.resize(size);
  return secret;
}

}  // namespace

Status check_secret(std::string_view what, std::size_t bytes) {
  if (bytes >= kLeastSecretBytes && bytes <= kMostSecretBytes) return {};
  return invalid(fmt::format(
      "{} holds {} bytes, a secret has {} to {}; make one with: head -c 32 /dev/urandom", what,
      bytes > kMostSecretBytes ? "too many" : std::to_string(bytes), kLeastSecretBytes,
      kMostSecretBytes));
}

std::vector<std::byte> to_secret(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Result<MadeSecret> make_secret() {
  std::vector<std::byte> secret(kMadeSecretBytes);
  if (Status status = secure::random_bytes(secret); !status) return status;
  return keep_secret(std::move(secret));
}

Result<MadeSecret> keep_secret(std::vector<std::byte> secret) {
  MadeSecret made;
  made.secret = std::move(secret);
  made.fd = os::Fd(memfd_create("tutti-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.fd.valid()) return os::system_error("cannot keep the job's secret", errno);
  const os::NoFileSizeSignal no_signal;
  const ssize_t written = write(made.fd.get(), made.secret.data(), made.secret.size());
  if (written != static_cast<ssize_t>(made.secret.size()))
    return os::system_error("cannot keep the job's secret", written < 0 ? errno : ENOSPC);
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (fcntl(made.fd.get(), F_ADD_SEALS, kSeals) != 0)
    return os::system_error("cannot keep the job's secret", errno);
  return made;
}

Result<std::vector<std::byte>> read_secret_fd(int fd) {
  const std::string what = fmt::format("the job's secret (descriptor {})", fd);
  struct stat info {};
  if (fstat(fd, &info) != 0) {
    return invalid(
        fmt::format("{} is not open in this process; was it closed by a program between "
                    "the launcher and this one?",
                    what));
  }
  if (!S_ISREG(info.st_mode))
    return invalid(
        fmt::format("{} is not memory or a file; is the number in TUTTI_SECRET_FD that "
                    "of another descriptor?",
                    what));
  return read_all(fd, what);
}

Result<std::vector<std::byte>> read_secret_file(const std::string& path) {
  const std::string what = fmt::format("the secret file {}", path);
  // Non-blocking: a named pipe must not hold us up.
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const Status status = os::system_error("cannot open " + what, errno);
    return invalid(std::string(status.message()));
  }
  return read_own_secret(fd.get(), what, path, Readers::group_of_root);
}

Result<std::vector<std::byte>> read_own_secret(int fd, const std::string& what,
                                               const std::string& path, Readers readers) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return os::system_error("cannot read " + what, errno);
  if (!S_ISREG(info.st_mode)) return invalid(fmt::format("{} is not a file", what));
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return invalid(fmt::format("{} belongs to another user", what));
  const bool group_may = info.st_uid == 0 && readers == Readers::group_of_root;
  if ((info.st_mode & (group_may ? 037 : 077)) != 0) {
    return invalid(
        fmt::format("{} can be used by others than its owner (mode {:04o}); close it "
                    "with: chmod 600 {}",
                    what, info.st_mode & 07777, path));
  }
  return read_all(fd, what);
}

}  // namespace tutti::store
