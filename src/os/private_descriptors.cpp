#include "os/private_descriptors.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>

namespace tutti::os {
namespace {

constexpr std::size_t kBitsPerWord = 64;
constexpr std::size_t kBitsPerBlock = 8192;
constexpr std::size_t kBlocks = 8192;  // 67 million descriptors

/// One bit for each descriptor. No lock: a fork finds each word as it is.
struct Block {
  std::array<std::atomic<std::uint64_t>, kBitsPerBlock / kBitsPerWord> words{};
};
Block first_block;
std::array<std::atomic<Block*>, kBlocks> blocks{&first_block};  // made when needed, never freed

struct Place {
  std::atomic<std::uint64_t>* word = nullptr;  ///< null: nothing is noted there
  std::uint64_t bit = 0;
};

Place place_of(int fd, bool make) noexcept {
  const auto number = static_cast<std::size_t>(fd);
  if (number >= kBitsPerBlock * kBlocks) return {};
  std::atomic<Block*>& slot = blocks[number / kBitsPerBlock];
  Block* block = slot.load(std::memory_order_acquire);  // pairs with the exchange below
  if (block == nullptr && make) {
    auto* const fresh = new (std::nothrow) Block;
    if (fresh == nullptr) return {};
    if (slot.compare_exchange_strong(block, fresh, std::memory_order_acq_rel))
      block = fresh;
    else
      delete fresh;
  }
  if (block == nullptr) return {};
  const std::size_t bit = number % kBitsPerBlock;
  return {&block->words[bit / kBitsPerWord], std::uint64_t{1} << (bit % kBitsPerWord)};
}

/// In the child, which has one thread. Only what is safe in a signal handler.
void close_all() noexcept {
  const int error = errno;
  const int stand_in = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (std::size_t b = 0; b < kBlocks; ++b) {
    Block* const block = blocks[b].load(std::memory_order_relaxed);
    if (block == nullptr) continue;
    for (std::size_t w = 0; w < block->words.size(); ++w) {
      std::uint64_t bits = block->words[w].exchange(0, std::memory_order_relaxed);
      for (; bits != 0; bits &= bits - 1) {
        const auto fd = static_cast<int>(b * kBitsPerBlock + w * kBitsPerWord +
                                         static_cast<std::size_t>(std::countr_zero(bits)));
        if (stand_in < 0 || ::dup3(stand_in, fd, O_CLOEXEC) < 0) ::close(fd);
      }
    }
  }
  if (stand_in >= 0) ::close(stand_in);
  errno = error;
}

[[maybe_unused]] const int kWatched = ::pthread_atfork(nullptr, nullptr, close_all);

}  // namespace

void keep_private(int fd) noexcept {
  if (fd < 0) return;
  const Place place = place_of(fd, true);
  if (place.word != nullptr) place.word->fetch_or(place.bit);
}

void close_descriptor(int fd) noexcept {
  const Place place = place_of(fd, false);
  // Before the number can be another file's. relaxed: the thread that made it private handed it
  // over.
  if (place.word != nullptr && (place.word->load(std::memory_order_relaxed) & place.bit) != 0)
    place.word->fetch_and(~place.bit);
  ::close(fd);
}

}  // namespace tutti::os
