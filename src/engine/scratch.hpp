#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace tutti::engine {

/// Private memory of one operation, for messages that arrive and for sums. Not initialized.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::size_t bytes);

  [[nodiscard]] std::byte* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return data_ == nullptr ? 0 : size_; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
};

/// Memory that large operations reuse. Without it each slot of each window would keep its own, and
/// the next operation would run in memory that is in no cache.
class ScratchPool {
 public:
  /// Up to this size the memory stays in the operation's slot.
  static constexpr std::size_t kSmall = std::size_t{64} * 1024;
  /// The most bytes that the pool keeps. Schedules that select() chooses need no more at 2 to 32
  /// ranks.
  static constexpr std::size_t kMostKept = std::size_t{2} << 20;

  ScratchPool() { free_.reserve(kMostKept / kSmall); }

  /// Makes `scratch` at least `bytes` large. Its earlier memory goes back to the pool.
  void fit(Scratch& scratch, std::size_t bytes);
  /// Keeps the memory for the next `fit`, or frees it.
  void release(Scratch scratch) noexcept;
  [[nodiscard]] std::size_t kept() const noexcept { return kept_; }

 private:
  std::vector<Scratch> free_;  ///< in the order of `release`
  std::size_t kept_ = 0;
};

}  // namespace tutti::engine
