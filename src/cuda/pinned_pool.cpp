#include "cuda/pinned_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

namespace tutti::cuda {
namespace {

constexpr std::size_t kSmallest = std::size_t{64} << 10;
constexpr std::size_t kStep = std::size_t{1} << 20;

/// The sizes of blocks are few, so that one fits the next operation, too.
std::size_t rounded(std::size_t bytes) noexcept {
  if (bytes <= kStep) return std::bit_ceil(std::max(bytes, kSmallest));
  return (bytes + kStep - 1) / kStep * kStep;
}

}  // namespace

PinnedBlock& PinnedBlock::operator=(PinnedBlock&& other) noexcept {
  if (this == &other) return *this;
  release();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void PinnedBlock::release() noexcept {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->put_back(data_, bytes_);
  data_ = nullptr;
}

PinnedPool::~PinnedPool() {
  for (const Idle& one : idle_) free(one.data, one.bytes);
}

bool PinnedPool::acquire(Calls& calls, std::size_t bytes, PinnedBlock& made) {
  const std::size_t size = rounded(bytes);
  const auto fits = [&](const Idle& one) { return one.bytes >= size && one.bytes <= 2 * size; };
  PinnedBlock block;
  block.bytes_ = size;
  if (const auto at = std::ranges::find_if(idle_, fits); at != idle_.end()) {
    block.data_ = at->data;
    block.bytes_ = at->bytes;
    idle_bytes_ -= at->bytes;
    idle_.erase(at);
  } else {
    // Memory of ours that is registered, and not the driver's: other ranks of the host read it as
    // any memory of a process (process_vm_readv), which cannot read mappings of a device.
    void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return calls.fail("mmap", "no memory for a copy on the host");
    // A child of a fork does not get it: copy-on-write would give us other pages than the GPU has.
    (void)::madvise(memory, size, MADV_DONTFORK);
    if (!calls.cuda("cuMemHostRegister", cuda_.register_host(memory, size))) {
      (void)::munmap(memory, size);
      return false;
    }
    block.data_ = static_cast<std::byte*>(memory);
  }
  block.pool_ = this;
  made = std::move(block);
  return true;
}

void PinnedPool::put_back(std::byte* data, std::size_t bytes) noexcept {
  if (idle_bytes_ + bytes > kMostIdle) return free(data, bytes);
  idle_.push_back({data, bytes});
  idle_bytes_ += bytes;
}

void PinnedPool::free(std::byte* data, std::size_t bytes) noexcept {
  (void)cuda_.unregister_host(data);  // the driver may be gone: the process ends
  (void)::munmap(data, bytes);
}

}  // namespace tutti::cuda
