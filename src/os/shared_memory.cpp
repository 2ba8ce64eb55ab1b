#include "os/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <string>

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
  Fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return failed("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return failed("ftruncate of shared memory");
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
  ::madvise(data, size, MADV_DONTFORK);  // decisions D8: a forked child must not write our lines
  ::madvise(data, size, MADV_DONTDUMP);  // a core file would be as large as all arenas together
  return Mapping(static_cast<std::byte*>(data), size);
}

Status populate(std::byte* data, std::size_t size) {
  if (::madvise(data, size, MADV_POPULATE_WRITE) == 0) return Status();
  if (errno != EINVAL) return failed("taking memory for staging");
  // Before Linux 5.14: touch each page; an overcommitted system may then end us by SIGBUS.
  for (std::size_t at = 0; at < size; at += 4096) {
    volatile std::byte* const page = data + at;
    *page = *page;
  }
  return Status();
}

void punch(std::byte* data, std::size_t size) noexcept { ::madvise(data, size, MADV_REMOVE); }

}  // namespace tutti::os
