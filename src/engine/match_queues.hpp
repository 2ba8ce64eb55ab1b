#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti::engine {

/// Queues of small numbers by (rank, tag), first in first out. Memory is kept, so a steady load
/// needs no new memory, whatever the keys.
class MatchQueues {
 public:
  struct Key {
    int rank = 0;
    int tag = 0;
    [[nodiscard]] bool operator==(const Key&) const noexcept = default;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::size_t kEach = 32;  ///< bytes of memory that an item takes at most

  MatchQueues();
  void push(Key key, std::uint32_t item);
  /// Puts an item before the first one of its key that `follows` it; else last.
  template <class Follows>
  void insert(Key key, std::uint32_t item, const Follows& follows) {
    push(key, item);
    const Queue& queue = queues_[find(key)];
    bool shifts = false;
    for (std::uint32_t node = queue.first; node != kNone; node = nodes_[node].next) {
      shifts = shifts || (node != queue.last && follows(nodes_[node].item));
      if (shifts) std::swap(nodes_[node].item, item);
    }
  }
  /// The oldest item of this key, or kNone.
  [[nodiscard]] std::uint32_t first(Key key) const noexcept;
  /// `look` of each key and its oldest item, in no order.
  template <class Look>
  void each_first(const Look& look) const {
    for (const Queue& queue : queues_) {
      if (queue.first != kNone) look(queue.key, nodes_[queue.first].item);
    }
  }
  /// Takes the oldest item of this key away; there must be one.
  void pop(Key key) noexcept { (void)take(key); }
  /// The same, and returns it; kNone: there is none.
  std::uint32_t take(Key key) noexcept;
  /// Takes this item of this key away; it must be there.
  void erase(Key key, std::uint32_t item) noexcept;
  void clear() noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  struct Queue {
    Key key;
    std::uint32_t first = kNone;  ///< node
    std::uint32_t last = kNone;
    std::uint32_t next = kNone;  ///< queue of the same bucket, or free
  };
  struct Node {
    std::uint32_t item = 0;
    std::uint32_t next = kNone;
  };
  [[nodiscard]] std::size_t bucket_of(Key key) const noexcept;
  [[nodiscard]] std::uint32_t find(Key key) const noexcept;
  void grow();

  std::vector<std::uint32_t> buckets_;  ///< first queue of each; a power of two
  std::vector<Queue> queues_;
  std::vector<Node> nodes_;
  std::uint32_t free_queue_ = kNone;
  std::uint32_t free_node_ = kNone;
  std::size_t used_queues_ = 0;
  std::size_t size_ = 0;
};

}  // namespace tutti::engine
