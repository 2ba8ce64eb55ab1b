#include "store/user_key.hpp"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/format.hpp"
#include "base/getenv.hpp"
#include "base/wiped_array.hpp"
#include "os/fd.hpp"
#include "os/file_size_signal.hpp"
#include "os/system_error.hpp"
#include "secure/hmac.hpp"
#include "store/secret.hpp"

namespace tutti::store {
namespace {

constexpr const char* kKeyName = "key";
constexpr mode_t kModeOfOthers = 077;

/// The outcome at one place: a key, an error that ends the search, or why the next one is tried.
struct Found {
  std::optional<UserKey> key = {};
  Outcome wrong = {};
  std::string unusable = {};
};

std::string text_of(int error) { return std::string(os::system_error("", error).message()); }

Outcome unusable(const std::string& path, int error) {
  return Outcome(Errc::unsupported, path + text_of(error));
}

/// Empty if the file belongs to the effective user.
std::string not_ours(const std::string& path, const struct stat& info) {
  if (info.st_uid == geteuid()) return {};
  return base::format("{} belongs to user {}, not to user {}", path, info.st_uid, geteuid());
}

/// A folder that belongs to the effective user; made if it is not there.
Result<os::Fd> own_folder(int at, const std::string& name, const std::string& path, int flags) {
  const int error = mkdirat(at, name.c_str(), 0700) == 0 ? 0 : errno;
  if (error == 0) (void)fchmodat(at, name.c_str(), 0700, 0);  // whatever the umask says
  os::Fd folder(openat(at, name.c_str(), O_DIRECTORY | O_CLOEXEC | flags));
  const int why = error != 0 && error != EEXIST ? error : errno;
  struct stat info {};
  // Where it cannot be opened, too: whatever another user has put there is told as theirs.
  const bool known = folder.valid() ? fstat(folder.get(), &info) == 0
                                    : fstatat(at, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  if (std::string owner = known ? not_ours(path, info) : ""; !owner.empty())
    return Outcome(Errc::unsupported, std::move(owner));
  if (!folder.valid() || !known) return unusable(path, why);
  return folder;
}

/// Reads the key in a folder; ENOENT as `unsupported` with an empty text.
Result<SecretBytes> read_key(int folder, const std::string& path) {
  const os::Fd fd(openat(folder, kKeyName, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid() && errno == ENOENT) return Outcome(Errc::unsupported, "");
  if (!fd.valid() && errno == ELOOP)
    return Outcome(Errc::invalid_argument, base::format("{} is a symbolic link", path));
  if (!fd.valid()) return unusable(path, errno);
  return read_own_secret(fd.get(), base::format("the user's key {}", path), path, Readers::owner);
}

/// A file of its own with a new key, then a link: the process that links first has made the key of
/// all.
Outcome make_key(int folder, const std::string& path) {
  base::WipedArray<kMadeSecretBytes + 8> random;
  if (Outcome s = secure::random_bytes(random); !s) return s;
  std::string name = ".key-";
  for (const std::byte byte : std::span(random).subspan(kMadeSecretBytes))
    name += base::format("{:02x}", std::to_integer<unsigned>(byte));
  const os::Fd file(
      openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return unusable(path, errno);
  struct stat info {};
  const auto key = std::span<const std::byte>(random).first(kMadeSecretBytes);
  int error = 0;
  if (fchmod(file.get(), 0600) != 0 || fstat(file.get(), &info) != 0) error = errno;
  if (error == 0 && (info.st_uid != geteuid() || (info.st_mode & kModeOfOthers) != 0))
    error = EPERM;
  const os::NoFileSizeSignal no_signal;
  if (error == 0 && (write(file.get(), key.data(), key.size()) != ssize_t{kMadeSecretBytes} ||
                     fsync(file.get()) != 0))
    error = errno != 0 ? errno : ENOSPC;
  // EEXIST: another process was first, and its key is everybody's.
  if (error == 0 && linkat(folder, name.c_str(), folder, kKeyName, 0) != 0 && errno != EEXIST)
    error = errno;
  (void)unlinkat(folder, name.c_str(), 0);
  return error == 0 ? Outcome() : unusable(path, error);
}

Found key_in(const os::Fd& folder, const std::string& path) {
  auto key = read_key(folder.get(), path);
  if (!key && key.status().code() == Errc::unsupported && key.status().message().empty()) {
    if (Outcome made = make_key(folder.get(), path); !made)
      return {.unusable = std::string(made.message())};
    key = read_key(folder.get(), path);
  }
  if (key) return {.key = UserKey{std::move(*key), path}};
  if (key.status().code() != Errc::invalid_argument)
    return {.unusable = std::string(key.status().message())};
  return {.wrong =
              Outcome(Errc::invalid_argument,
                      base::format("{}; if others may have read it, remove it: the next program "
                                   "makes a new one",
                                   key.status().message()))};
}

Found key_at_home(const std::string& home) {
  if (home.empty()) return {.unusable = "this user has no home"};
  auto folder = os::Fd(open(home.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return {.unusable = home + text_of(errno)};
  struct stat info {};
  if (fstat(folder.get(), &info) != 0) return {.unusable = home + text_of(errno)};
  if (std::string owner = not_ours(home, info); !owner.empty())
    return {.unusable = std::move(owner)};
  std::string path = home;
  for (const char* const name : {".config", "tutti"}) {
    path += base::format("/{}", name);
    auto next = own_folder(folder.get(), name, path, O_PATH);
    if (!next) return {.unusable = std::string(next.status().message())};
    folder = std::move(*next);
  }
  return key_in(folder, path + "/key");
}

Found key_in_runtime(const std::string& runtime) {
  const os::Fd parent(open(runtime.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) return {.unusable = runtime + text_of(errno)};
  struct stat info {};
  if (fstat(parent.get(), &info) != 0) return {.unusable = runtime + text_of(errno)};
  if (std::string owner = not_ours(runtime, info); !owner.empty())
    return {.unusable = std::move(owner)};
  if ((info.st_mode & kModeOfOthers) != 0)
    return {.unusable =
                base::format("{} is open to others (mode {:04o})", runtime, info.st_mode & 07777)};
  const std::string path = runtime + "/tutti";
  auto folder = own_folder(parent.get(), "tutti", path, O_RDONLY | O_NOFOLLOW);
  if (!folder) return {.unusable = std::string(folder.status().message())};
  return key_in(*folder, path + "/key");
}

Found key_in_memory(const std::string& memory) {
  const std::string path = base::format("{}/tutti-{}", memory, geteuid());
  auto folder = own_folder(AT_FDCWD, path, path, O_RDONLY | O_NOFOLLOW);
  if (!folder) return {.unusable = std::string(folder.status().message())};
  struct stat info {};
  if (fstat(folder->get(), &info) != 0 || (info.st_mode & kModeOfOthers) != 0) {
    return {.wrong =
                Outcome(Errc::invalid_argument,
                        base::format("{} is open to others (mode {:04o}); close it with: chmod "
                                     "700 {}",
                                     path, info.st_mode & 07777, path))};
  }
  return key_in(*folder, path + "/key");
}

}  // namespace

KeyPlaces places_of_user() {
  KeyPlaces places;
  places.runtime = base::getenv("XDG_RUNTIME_DIR");
  if (!places.runtime.starts_with('/')) places.runtime = base::format("/run/user/{}", geteuid());
  places.home = base::getenv("HOME");
  if (places.home.starts_with('/')) return places;
  places.home.clear();
  struct passwd entry {};
  struct passwd* found = nullptr;
  std::array<char, 16384> text{};
  if (getpwuid_r(geteuid(), &entry, text.data(), text.size(), &found) == 0 && found != nullptr &&
      found->pw_dir != nullptr && *found->pw_dir == '/')
    places.home = found->pw_dir;
  return places;
}

Result<UserKey> find_user_key(const KeyPlaces& places) {
  Found home = key_at_home(places.home);
  if (home.key) return std::move(*home.key);
  if (!home.wrong) return home.wrong;
  Found runtime = key_in_runtime(places.runtime);
  if (runtime.key) return std::move(*runtime.key);
  if (!runtime.wrong) return runtime.wrong;
  Found memory = key_in_memory(places.memory);
  if (memory.key) return std::move(*memory.key);
  if (!memory.wrong) return memory.wrong;
  return Outcome(
      Errc::unsupported,
      base::format("no place for a key of this user ({}; {}; {}); give all processes the "
                   "same TUTTI_SECRET_FILE, or set TUTTI_INSECURE=1",
                   home.unusable, runtime.unusable, memory.unusable));
}

}  // namespace tutti::store
