#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace tutti::engine {

/// Private memory of one operation: where messages land, and sums are made. Whatever is in it.
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

/// Memory that large operations pass on to each other: each slot of each group's window would else
/// keep its own, and the next operation would run in memory that no cache has seen lately.
class ScratchPool {
 public:
  /// Up to this size an operation's slot keeps what it has.
  static constexpr std::size_t kSmall = std::size_t{64} * 1024;
  /// Of all that is kept here together. The automatic choice takes no more at 2 to 32
  /// ranks.
  static constexpr std::size_t kMostKept = std::size_t{2} << 20;

  ScratchPool() { free_.reserve(kMostKept / kSmall); }

  /// At least so many bytes. The earlier memory of `scratch` is given.
  void fit(Scratch& scratch, std::size_t bytes);
  /// For the next one who takes, or for the system.
  void give(Scratch scratch) noexcept;
  [[nodiscard]] std::size_t kept() const noexcept { return kept_; }

 private:
  std::vector<Scratch> free_;  ///< the one that was given last is the last
  std::size_t kept_ = 0;
};

}  // namespace tutti::engine
