#include "os/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <string>

#include "os/file_size_signal.hpp"
#include "os/system_error.hpp"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tutti::os {
namespace {

Outcome failed(const char* what) {
  const int error = errno;
  return Outcome(Errc::resource,
                 std::string(system_error(std::string(what) + " failed", error).message()));
}

/// To take more would end some process. The kernel refuses it of ordinary memory, but not of this.
std::size_t memory_of_the_system() noexcept {
  struct sysinfo all = {};
  if (::sysinfo(&all) != 0) return ~std::size_t{0};
  return (all.totalram + all.totalswap) * all.mem_unit;
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
Outcome set_size(int fd, std::size_t size) {
  const NoFileSizeSignal no_signal;
  if (::ftruncate(fd, static_cast<off_t>(size)) == 0) return Outcome();
  rlimit before{};
  if (errno != EFBIG || getrlimit(RLIMIT_FSIZE, &before) != 0)
    return failed("ftruncate of shared memory");
  const rlimit most{before.rlim_max, before.rlim_max};
  (void)setrlimit(RLIMIT_FSIZE, &most);
  const bool fits = ::ftruncate(fd, static_cast<off_t>(size)) == 0;
  (void)setrlimit(RLIMIT_FSIZE, &before);
  if (fits) return Outcome();
  return Outcome(Errc::resource, "shared memory takes a file of " + std::to_string(size) +
                                     " bytes (of which only what is used takes memory), and this "
                                     "process may make files of " +
                                     std::to_string(before.rlim_max) +
                                     " bytes; allow it more (ulimit -f)");
}

/// Where a mapping in parts may begin: far from all that the kernel places by itself.
std::byte* some_place(std::size_t size) noexcept {
  constexpr std::uint64_t kBegin = std::uint64_t{0x1000} << 32;
  constexpr std::uint64_t kEnd = std::uint64_t{0x7000} << 32;
  constexpr std::uint64_t kStep = std::uint64_t{1} << 30;
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random) random = size;
  const std::uint64_t places = (kEnd - kBegin - size) / kStep;
  return reinterpret_cast<std::byte*>(kBegin + random % places * kStep);
}
constexpr int kPlaces = 16;  // that are tried

/// At that address, which nothing must have; nullptr: anywhere. Returns nullptr on failure, with
/// errno.
std::byte* map_part(const Fd& memfd, std::byte* place, std::size_t offset, std::size_t bytes,
                    bool writable) noexcept {
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  const int flags = MAP_SHARED | MAP_NORESERVE | (place != nullptr ? MAP_FIXED_NOREPLACE : 0);
  void* const data =
      ::mmap(place, bytes, protection, flags, memfd.get(), static_cast<off_t>(offset));
  if (data == MAP_FAILED) return nullptr;
  if (place != nullptr && data != place) {  // a kernel before 4.17, and something else is there
    ::munmap(data, bytes);
    errno = EEXIST;
    return nullptr;
  }
  ::madvise(data, bytes, MADV_DONTFORK);  // a forked child must not write our lines
  ::madvise(data, bytes, MADV_DONTDUMP);  // a core file would be as large as all arenas together
  return static_cast<std::byte*>(data);
}

Outcome not_mapped(std::size_t bytes) {
  rlimit limit{};
  if (errno != ENOMEM || ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return failed("mmap of shared memory");
  return Outcome(Errc::resource, "shared memory takes " + std::to_string(bytes) +
                                     " more bytes of address space, and this process may have " +
                                     std::to_string(limit.rlim_cur) +
                                     " bytes of it in all; allow it more (ulimit -v)");
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
  // Other users cannot reopen it, whatever descriptor of it they get.
  if (::fchmod(fd.get(), 0600) != 0) return failed("changing the mode of shared memory");
  if (Outcome s = set_size(fd.get(), size); !s.ok()) return s;
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return failed("sealing shared memory");
  return fd;
}

Outcome forbid_reopening(const Fd& memfd) {
  if (::fchmod(memfd.get(), 0) != 0) return failed("changing the mode of shared memory");
  return Outcome();
}

Outcome check_memfd(const Fd& memfd, std::size_t size) {
  const int seals = ::fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0) return failed("reading the seals of a peer's shared memory");
  if ((seals & kSeals) != kSeals) {
    return Outcome(Errc::refused, "a peer's shared memory is not sealed against resizing");
  }
  struct stat info = {};
  if (::fstat(memfd.get(), &info) != 0) return failed("fstat of a peer's shared memory");
  if (info.st_size != static_cast<off_t>(size)) {
    return Outcome(Errc::refused, "a peer's shared memory has " + std::to_string(info.st_size) +
                                      " bytes instead of " + std::to_string(size));
  }
  return Outcome();
}

Result<Mapping> map_shared(const Fd& memfd, std::size_t size, bool writable) {
  std::byte* const data = map_part(memfd, nullptr, 0, size, writable);
  if (data == nullptr) return not_mapped(size);
  return Mapping(data, size);
}

bool address_space_is_limited() noexcept {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

Result<PartialMapping> PartialMapping::map(Fd memfd, std::size_t size, bool whole) {
  PartialMapping made;
  made.size_ = size;
  made.whole_ = whole;
  if (whole) {
    made.data_ = map_part(memfd, nullptr, 0, size, false);
    if (made.data_ == nullptr) return not_mapped(size);
    return made;
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  for (int tries = 0; tries < kPlaces && made.data_ == nullptr; ++tries)
    made.data_ = map_part(memfd, some_place(size), 0, page, false);
  if (made.data_ == nullptr) return not_mapped(page);
  made.parts_[0] = page;
  made.memfd_ = std::move(memfd);
  return made;
}

PartialMapping& PartialMapping::operator=(PartialMapping&& other) noexcept {
  if (this != &other) {
    std::swap(memfd_, other.memfd_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(whole_, other.whole_);
    std::swap(parts_, other.parts_);
  }
  return *this;
}

PartialMapping::~PartialMapping() {
  if (whole_ && data_ != nullptr) ::munmap(data_, size_);
  for (const auto& [begin, end] : parts_) ::munmap(data_ + begin, end - begin);
}

Outcome PartialMapping::add(std::size_t begin, std::size_t bytes) {
  if (whole_) return Outcome();
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::size_t end = std::min(size_, (begin + bytes + page - 1) / page * page);
  begin = begin / page * page;
  // Parts that touch the range become one part with it.
  auto next = parts_.upper_bound(begin);
  if (next != parts_.begin() && std::prev(next)->second >= begin) --next;
  std::size_t at = begin;
  std::size_t first = begin;
  while (at < end) {
    if (next != parts_.end() && next->first <= at) {
      first = std::min(first, next->first);
      at = std::max(at, next->second);
      end = std::max(end, next->second);
      next = parts_.erase(next);
      continue;
    }
    const std::size_t upto = next == parts_.end() ? end : std::min(end, next->first);
    if (map_part(memfd_, data_ + at, at, upto - at, false) == nullptr) {
      const Outcome why = not_mapped(upto - at);
      if (at > first) parts_[first] = at;
      return why;
    }
    at = upto;
  }
  if (next != parts_.end() && next->first == end) {
    end = next->second;
    parts_.erase(next);
  }
  parts_[first] = end;
  return Outcome();
}

Outcome PartialMapping::add_writable(std::size_t begin, std::size_t bytes) {
  if (Outcome s = add(begin, bytes); !s.ok()) return s;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::span<std::byte> pages = pages_of(data_ + begin, bytes, page);
  if (::mprotect(pages.data(), pages.size(), PROT_READ | PROT_WRITE) == 0) return Outcome();
  return not_mapped(pages.size());
}

std::span<std::byte> pages_of(std::byte* data, std::size_t size, std::size_t page) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::size_t before = address % page;
  return {data - before, (before + size + page - 1) / page * page};
}

Outcome populate(std::byte* data, std::size_t size) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::span<std::byte> pages = pages_of(data, size, page);
  const bool more = pages.size() > memory_of_the_system();
  if (!more && ::madvise(pages.data(), pages.size(), MADV_POPULATE_WRITE) == 0) return Outcome();
  // EFAULT: a touch would end in SIGBUS.
  if (more || errno == EFAULT || errno == ENOMEM || errno == ENOSPC) {
    return Outcome(Errc::resource, "the system has no " + std::to_string(pages.size()) +
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
  return Outcome();
}

bool discard(std::byte* data, std::size_t size) noexcept {
  return ::madvise(data, size, MADV_REMOVE) == 0;
}

void share_with_children(std::byte* data, std::size_t size) noexcept {
  ::madvise(data, size, MADV_DOFORK);
}

}  // namespace tutti::os
