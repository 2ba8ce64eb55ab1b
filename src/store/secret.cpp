#include "store/secret.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/format.hpp"
#include "base/index.hpp"
#include "base/shown.hpp"
#include "base/wiped_array.hpp"
#include "os/handed_memory.hpp"
#include "os/shared_memory.hpp"
#include "os/system_error.hpp"
#include "secure/hmac.hpp"

namespace tutti::store {
namespace {

Outcome invalid(std::string text) { return Outcome(Errc::invalid_argument, std::move(text)); }

Result<SecretBytes> read_all(int fd, const std::string& what) {
  base::WipedArray<kMostSecretBytes + 1> secret;
  const ssize_t got = os::read_at(fd, secret, 0);
  if (got < 0) return os::system_error("cannot read " + what, errno);
  const std::size_t size = base::as_size(got);
  if (Outcome s = check_secret(what, size); !s) return s;
  return SecretBytes(std::span<const std::byte>(secret).first(size));
}

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

Outcome check_secret(std::string_view what, std::size_t bytes) {
  if (bytes >= kLeastSecretBytes && bytes <= kMostSecretBytes) return {};
  return invalid(base::format(
      "{} holds {} bytes, a secret has {} to {}; make one with: head -c 32 /dev/urandom", what,
      bytes > kMostSecretBytes ? "too many" : std::to_string(bytes), kLeastSecretBytes,
      kMostSecretBytes));
}

SecretBytes to_secret(std::string_view text) { return SecretBytes(std::as_bytes(std::span(text))); }

Result<MadeSecret> make_secret() {
  base::WipedArray<kMadeSecretBytes> random;
  if (Outcome status = secure::random_bytes(random); !status) return status;
  return keep_secret(SecretBytes(random));
}

Result<MadeSecret> keep_secret(SecretBytes secret) {
  MadeSecret made;
  made.secret = std::move(secret);
  auto memory = os::make_memfd("tutti-secret", made.secret.size());
  if (!memory) return memory.status();
  made.fd = std::move(*memory);
  {  // by a mapping, since the limit on the size of files counts for a write; it ends before the
     // seal
    auto mapping = os::map_shared(made.fd, made.secret.size(), true);
    if (!mapping) return mapping.status();
    if (Outcome s = os::populate(mapping->data(), made.secret.size()); !s) return s;
    std::ranges::copy(made.secret, mapping->data());
  }
  // The mode is for those who open it again in /proc.
  if (fchmod(made.fd.get(), 0400) != 0 || fcntl(made.fd.get(), F_ADD_SEALS, kSeals) != 0)
    return os::system_error("cannot keep the job's secret", errno);
  return made;
}

Result<SecretBytes> read_handed_secret(std::string_view text) {
  const std::string what =
      base::format("the job's secret (TUTTI_SECRET_FD={})", base::shown(text, 64));
  auto fd = os::find_handed(text, os::HandedAccess::read, what);
  if (!fd) {
    return invalid(
        base::format("{}; a program between the launcher and this one has closed or hidden it: let "
                     "it keep its descriptors open (in Python close_fds=False), or give the job a "
                     "file (tuttirun --secret-file, or TUTTI_SECRET_FILE in place of "
                     "TUTTI_SECRET_FD)",
                     fd.status().message()));
  }
  struct stat info {};
  if (fstat(fd->get(), &info) != 0) return os::system_error("cannot read " + what, errno);
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return invalid(base::format("{} belongs to another user", what));
  const int seals = fcntl(fd->get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || (info.st_mode & 077) != 0)
    return invalid(
        base::format("{} is not memory that a launcher has sealed and closed to others", what));
  return read_all(fd->get(), what);
}

Result<SecretBytes> read_secret_file(const std::string& path) {
  const std::string what = base::format("the secret file {}", path);
  // Non-blocking: a named pipe must not hold us up.
  const os::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    const Outcome status = os::system_error("cannot open " + what, errno);
    return invalid(std::string(status.message()));
  }
  return read_own_secret(fd.get(), what, path, Readers::group_of_root);
}

Result<SecretBytes> read_own_secret(int fd, const std::string& what, const std::string& path,
                                    Readers readers) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return os::system_error("cannot read " + what, errno);
  if (!S_ISREG(info.st_mode)) return invalid(base::format("{} is not a file", what));
  if (info.st_uid != geteuid() && info.st_uid != 0)
    return invalid(base::format("{} belongs to another user", what));
  const bool group_may = info.st_uid == 0 && readers == Readers::group_of_root;
  if ((info.st_mode & (group_may ? 037 : 077)) != 0) {
    return invalid(
        base::format("{} can be used by others than its owner (mode {:04o}); close it "
                     "with: chmod 600 {}",
                     what, info.st_mode & 07777, path));
  }
  return read_all(fd, what);
}

}  // namespace tutti::store
