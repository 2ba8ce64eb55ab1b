#include "engine/frame_buffers.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace tutti::engine {
namespace {

// Small buffers are made several at a time, so that a few more late frames than ever before need no
// memory.
constexpr std::size_t kAtOnce = 16;
constexpr std::size_t kSmall = 2048;

std::size_t place_of(std::size_t size) noexcept {
  return static_cast<std::size_t>(
      std::find(FrameBuffers::kSizes.begin(), FrameBuffers::kSizes.end(), size) -
      FrameBuffers::kSizes.begin());
}

}  // namespace

FrameBuffers::FrameBuffers() {
  for (std::size_t i = 0; i < free_.size(); ++i) free_[i].reserve(kSizes[i] <= kSmall ? 256 : 64);
}

std::vector<std::byte> FrameBuffers::acquire(std::size_t bytes) {
  const std::size_t size = size_for(bytes);
  std::vector<std::vector<std::byte>>& free = free_[place_of(size)];
  if (free.empty()) {
    for (std::size_t i = size <= kSmall ? kAtOnce : 1; i > 0; --i) free.emplace_back(size);
  }
  std::vector<std::byte> buffer = std::move(free.back());
  free.pop_back();
  return buffer;
}

void FrameBuffers::release(std::vector<std::byte> buffer) noexcept {
  const std::size_t place = place_of(buffer.size());
  if (place >= free_.size()) return;
  try {
    free_[place].push_back(std::move(buffer));
  } catch (const std::bad_alloc&) {  // then the buffer is freed
  }
}

}  // namespace tutti::engine
