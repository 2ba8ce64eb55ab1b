#include "engine/scratch.hpp"

#include <algorithm>
#include <utility>

namespace tutti::engine {

// Not cleared: what nobody writes takes no page.
Scratch::Scratch(std::size_t bytes)
    : data_(std::make_unique_for_overwrite<std::byte[]>(bytes)), size_(bytes) {}

void ScratchPool::fit(Scratch& scratch, std::size_t bytes) {
  release(std::exchange(scratch, {}));
  const auto found = std::find_if(free_.rbegin(), free_.rend(),
                                  [&](const Scratch& free) { return free.size() >= bytes; });
  if (found == free_.rend()) {
    scratch = Scratch(bytes);
    return;
  }
  kept_ -= found->size();
  scratch = std::move(*found);
  free_.erase(std::next(found).base());
}

void ScratchPool::release(Scratch scratch) noexcept {
  if (scratch.size() <= kSmall || scratch.size() > kMostKept) return;
  std::size_t oldest = 0;
  for (; kept_ + scratch.size() > kMostKept; ++oldest) kept_ -= free_[oldest].size();
  free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(oldest));
  kept_ += scratch.size();
  free_.push_back(std::move(scratch));  // there is room: each is larger than kSmall
}

}  // namespace tutti::engine
