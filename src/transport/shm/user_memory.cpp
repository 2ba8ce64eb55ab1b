#include "transport/shm/user_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "os/shared_memory.hpp"

namespace tutti::transport::shm {

Result<std::shared_ptr<std::byte>> UserMemory::allocate(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > kArenaBytes) return std::shared_ptr<std::byte>();
  bytes = std::max((bytes + page - 1) / page * page, page);
  std::size_t begin = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto fits = [bytes](const auto& range) { return range.second - range.first >= bytes; };
    const auto found = std::ranges::find_if(free_, fits);
    if (found == free_.end()) return std::shared_ptr<std::byte>();
    const std::size_t end = found->second;
    begin = found->first;
    free_.erase(found);
    if (begin + bytes < end) free_[begin + bytes] = end;
  }
  if (Outcome s = memory_->populate(begin_ + begin, bytes); !s.ok()) {
    (void)os::discard(begin_ + begin, bytes);
    give_back(begin, bytes);
    return s;
  }
  os::share_with_children(begin_ + begin, bytes);
  return std::shared_ptr<std::byte>(begin_ + begin,
                                    [self = shared_from_this(), begin, bytes](std::byte*) {
                                      if (self->forks_ != base::fork_generation()) return;
                                      std::byte* const data = self->begin_ + begin;
                                      if (!os::discard(data, bytes)) std::memset(data, 0, bytes);
                                      self->give_back(begin, bytes);
                                    });
}

void UserMemory::give_back(std::size_t begin, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    auto next = free_.upper_bound(begin);
    std::size_t end = begin + bytes;
    if (next != free_.end() && next->first == end) {
      end = next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin() && std::prev(next)->second == begin)
      std::prev(next)->second = end;
    else
      free_[begin] = end;
  } catch (const std::bad_alloc&) {  // its addresses are not used again; its pages are free
  }
}

}  // namespace tutti::transport::shm
