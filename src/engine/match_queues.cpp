#include "engine/match_queues.hpp"

#include <algorithm>

namespace tutti::engine {

MatchQueues::MatchQueues() : buckets_(64, kNone) {
  static_assert(sizeof(Queue) + sizeof(Node) + sizeof(std::uint32_t) <= kEach);
  queues_.reserve(64);
  nodes_.reserve(64);
}

std::size_t MatchQueues::bucket_of(Key key) const noexcept {
  std::uint64_t x = std::uint64_t{static_cast<std::uint32_t>(key.rank)} << 32 |
                    static_cast<std::uint32_t>(key.tag);
  x *= 0x9e3779b97f4a7c15ULL;
  return static_cast<std::size_t>(x >> 32) & (buckets_.size() - 1);
}

std::uint32_t MatchQueues::find(Key key) const noexcept {
  std::uint32_t at = buckets_[bucket_of(key)];
  while (at != kNone && !(queues_[at].key == key)) at = queues_[at].next;
  return at;
}

std::uint32_t MatchQueues::first(Key key) const noexcept {
  if (size_ == 0) return kNone;
  const std::uint32_t at = find(key);
  return at == kNone ? kNone : nodes_[queues_[at].first].item;
}

void MatchQueues::push(Key key, std::uint32_t item) {
  std::uint32_t node = free_node_;
  if (node == kNone) {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    free_node_ = nodes_[node].next;
  }
  nodes_[node] = {item, kNone};
  ++size_;
  if (const std::uint32_t at = find(key); at != kNone) {
    nodes_[queues_[at].last].next = node;
    queues_[at].last = node;
    return;
  }
  if (used_queues_ >= buckets_.size()) grow();
  std::uint32_t at = free_queue_;
  if (at == kNone) {
    at = static_cast<std::uint32_t>(queues_.size());
    queues_.emplace_back();
  } else {
    free_queue_ = queues_[at].next;
  }
  std::uint32_t& bucket = buckets_[bucket_of(key)];
  queues_[at] = {key, node, node, bucket};
  bucket = at;
  ++used_queues_;
}

std::uint32_t MatchQueues::take(Key key) noexcept {
  if (size_ == 0) return kNone;
  const std::uint32_t at = find(key);
  if (at == kNone) return kNone;
  Queue& queue = queues_[at];
  const std::uint32_t node = queue.first;
  const std::uint32_t item = nodes_[node].item;
  queue.first = nodes_[node].next;
  nodes_[node].next = free_node_;
  free_node_ = node;
  --size_;
  if (queue.first != kNone) return item;
  std::uint32_t* link = &buckets_[bucket_of(key)];
  while (*link != at) link = &queues_[*link].next;
  *link = queue.next;
  queue.next = free_queue_;
  free_queue_ = at;
  --used_queues_;
  return item;
}

void MatchQueues::erase(Key key, std::uint32_t item) noexcept {
  // Items before it move one place on; the first place is free then.
  std::uint32_t moves = item;
  std::uint32_t node = queues_[find(key)].first;
  for (std::swap(nodes_[node].item, moves); moves != item; std::swap(nodes_[node].item, moves))
    node = nodes_[node].next;
  pop(key);
}

void MatchQueues::clear() noexcept {
  std::fill(buckets_.begin(), buckets_.end(), kNone);
  queues_.clear();
  nodes_.clear();
  free_queue_ = kNone;
  free_node_ = kNone;
  used_queues_ = 0;
  size_ = 0;
}

void MatchQueues::grow() {
  const std::vector<std::uint32_t> before =
      std::exchange(buckets_, std::vector<std::uint32_t>(buckets_.size() * 2, kNone));
  for (std::uint32_t at : before) {
    while (at != kNone) {
      const std::uint32_t next = queues_[at].next;
      std::uint32_t& bucket = buckets_[bucket_of(queues_[at].key)];
      queues_[at].next = bucket;
      bucket = at;
      at = next;
    }
  }
}

}  // namespace tutti::engine
