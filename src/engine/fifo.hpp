#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::engine {

/// A queue that keeps its memory: unlike std::deque it allocates nothing under a steady load.
/// Elements move when others are pushed.
template <class T>
class Fifo {
 public:
  [[nodiscard]] bool empty() const noexcept { return head_ == items_.size(); }
  [[nodiscard]] std::size_t size() const noexcept { return items_.size() - head_; }
  [[nodiscard]] T& front() noexcept { return items_[head_]; }
  [[nodiscard]] T& back() noexcept { return items_.back(); }
  [[nodiscard]] auto begin() noexcept {
    return items_.begin() + static_cast<std::ptrdiff_t>(head_);
  }
  [[nodiscard]] auto end() noexcept { return items_.end(); }
  void push_back(T item) {
    make_room();
    items_.push_back(std::move(item));
  }
  /// Makes the next push_back need no memory.
  void make_room() {
    if (items_.capacity() == 0) items_.reserve(kRoom);
    // If at least half of the memory is free at the front, elements move there instead of growing.
    if (items_.size() == items_.capacity() && head_ > 0 && head_ >= items_.size() / 2) {
      items_.erase(items_.begin(), begin());
      head_ = 0;
    }
    if (items_.size() == items_.capacity()) items_.reserve(2 * items_.size());
  }
  void pop_front() noexcept {
    items_[head_] = T();
    if (++head_ == items_.size()) clear();
  }
  void clear() noexcept {
    items_.clear();
    head_ = 0;
  }

 private:
  static constexpr std::size_t kRoom = 64;  ///< initial room: more than usually waits at a time
  std::vector<T> items_;
  std::size_t head_ = 0;
};

}  // namespace tutti::engine
