#include "os/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "os/file_size_signal.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tutti::os {
namespace {

Status failed(const char* what) {
  const int error = errno;
  return Status(Errc::resource, std::string(what) + " failed: " + std::strerror(error));
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
#ifndef MFD_NOEXEC_SEAL
constexpr unsigned MFD_NOEXEC_SEAL = 8;
#endif

/// Where vm.memfd_noexec is 2 a memfd that could be executed is refused. Kernels before 6.3 do not
/// know the flag.
Fd open_memfd(const char* name) noexcept {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Fd fd(::memfd_create(name, kFlags | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd = Fd(::memfd_create(name, kFlags));
  return fd;
}

/// The limit on the size of files counts for a memfd too. It is raised for a moment if it may be.
Status set_size(int fd, std::size_t size) {
  const NoFileSizeSignal no_signal;
  if (::ftruncate(fd, static_cast<off_t>(size)) == 0) return Status();
  rlimit before{};
  if (errno != EFBIG || getrlimit(RLIMIT_FSIZE, &before) != 0)
    return failed("ftruncate of shared memory");
  const rlimit most{before.rlim_max, before.rlim_max};
  (void)setrlimit(RLIMIT_FSIZE, &most);
  const bool fits = ::ftruncate(fd, static_cast<off_t>(size)) == 0;
  (void)setrlimit(RLIMIT_FSIZE, &before);
  if (fits) return Status();
  return Status(Errc::resource, "shared memory takes a file of " + std::to_string(size) +
                                    " bytes (of which only what is used takes memory), and this "
                                    "process may make files of " +
                                    std::to_string(before.rlim_max) +
                                    " bytes; allow it more (ulimit -f)");
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ::munmap(data_, size_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
  }
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<Fd> make_memfd(const char* name, std::size_t size) {
  Fd fd = open_memfd(name);
  if (!fd.valid()) return failed("memfd_create");
  if (Status s = set_size(fd.get(), size); !s.ok()) return s;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return failed("sealing shared memory");
  return fd;
}

Result<Fd> reopen_read_only(const Fd& memfd) {
  const std::string path = "/proc/self/fd/" + std::to_string(memfd.get());
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return failed("opening shared memory for reading (is /proc mounted?)");
  return fd;
}

Status check_memfd(const Fd& memfd, std::size_t size) {
  const int seals = ::fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0) return failed("reading the seals of a peer's shared memory");
  if ((seals & kSeals) != kSeals) {
    return Status(Errc::refused, "a peer's shared memory is not sealed against resizing");
  }
  struct stat info = {};
  if (::fstat(memfd.get(), &info) != 0) return failed("fstat of a peer's shared memory");
  if (info.st_size != static_cast<off_t>(size)) {
    return Status(Errc::refused, "a peer's shared memory has " + std::to_string(info.st_size) +
                                     " bytes instead of " + std::to_string(size));
  }
  return Status();
}

Result<Mapping> map_shared(const Fd& memfd, std::size_t size, bool writable) {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const data = ::mmap(nullptr, size, protection, MAP_SHARED | MAP_NORESERVE, memfd.get(), 0);
  if (data == MAP_FAILED) return failed("mmap of shared memory");
  ::madvise(data, size, MADV_DONTFORK);  // a forked child must not write our lines
  ::madvise(data, size, MADV_DONTDUMP);  // a core file would be as large as all arenas together
  return Mapping(static_cast<std::byte*>(data), size);
}

std::span<std::byte> pages_of(std::byte* data, std::size_t size, std::size_t page) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t before = address % page;
  return {data - before, (before + size + page - 1) / page * page};
}

Status populate(std::byte* data, std::size_t size) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::span<std::byte> pages = pages_of(data, size, page);
  if (::madvise(pages.data(), pages.size(), MADV_POPULATE_WRITE) == 0) return Status();
  // EFAULT: a touch would end in SIGBUS.
  if (errno == EFAULT || errno == ENOMEM || errno == ENOSPC) {
    return Status(Errc::resource, "the system has no " + std::to_string(pages.size()) +
                                      " bytes of shared memory left; allow this process more (the "
                                      "limit of its cgroup), or free some");
  }
  if (errno != EINVAL && errno != EPERM && errno != ENOSYS) return failed("taking shared memory");
  // Before Linux 5.14, or refused by a sandbox: touch each page; an overcommitted system may then
  // end us by SIGBUS.
  for (std::size_t at = 0; at < pages.size(); at += page) {
    volatile std::byte* const byte = pages.data() + at;
    *byte = *byte;
  }
  return Status();
}

}  // namespace tutti::os
