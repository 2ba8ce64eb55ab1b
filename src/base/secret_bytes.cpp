#include <tutti/secret_bytes.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace tutti {
inline namespace v0 {

SecretBytes::SecretBytes(std::span<const std::byte> bytes) : size_(bytes.size()) {
  if (bytes.empty()) return;
  // Whole pages: the advice is for pages, and nothing else must lie in them.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t length = (bytes.size() + page - 1) / page * page;
  void* const memory =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  ::madvise(memory, length, MADV_DONTDUMP);
  auto* const first = static_cast<std::byte*>(memory);
  std::ranges::copy(bytes, first);
  bytes_ = std::shared_ptr<const std::byte>(first, [first, length](const std::byte*) {
    ::explicit_bzero(first, length);
    ::munmap(first, length);
  });
}

bool operator==(const SecretBytes& a, const SecretBytes& b) noexcept {
  return std::ranges::equal(a, b);
}

}  // namespace v0
}  // namespace tutti
