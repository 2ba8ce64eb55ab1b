#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// An array in memory that the other ranks of the host can read: see ProcessGroup::alloc. It is a
/// buffer like a std::vector, which can be moved, and neither copied nor resized.
template <class T>
class SharedArray {
  static_assert(std::is_trivially_copyable_v<T>, "tutti: elements are moved as bytes");

 public:
  using value_type = T;

  SharedArray() noexcept = default;
  /// `memory`: of bytes_of(count) bytes.
  SharedArray(std::shared_ptr<std::byte> memory, std::size_t count) noexcept
      : memory_(std::move(memory)), count_(count) {}
  SharedArray(const SharedArray&) = delete;
  SharedArray& operator=(const SharedArray&) = delete;
  SharedArray(SharedArray&& other) noexcept
      : memory_(std::move(other.memory_)), count_(std::exchange(other.count_, 0)) {}
  SharedArray& operator=(SharedArray&& other) noexcept {
    memory_ = std::move(other.memory_);
    count_ = std::exchange(other.count_, 0);
    return *this;
  }
  ~SharedArray() = default;

  /// std::length_error where that many cannot be.
  [[nodiscard]] static std::size_t bytes_of(std::size_t count) {
    if (count > (std::numeric_limits<std::size_t>::max)() / sizeof(T))
      throw std::length_error("tutti: an array of more elements than memory has addresses");
    return count * sizeof(T);
  }

  [[nodiscard]] T* data() noexcept { return reinterpret_cast<T*>(memory_.get()); }
  [[nodiscard]] const T* data() const noexcept { return reinterpret_cast<const T*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] T* begin() noexcept { return data(); }
  [[nodiscard]] const T* begin() const noexcept { return data(); }
  [[nodiscard]] T* end() noexcept { return data() + count_; }
  [[nodiscard]] const T* end() const noexcept { return data() + count_; }
  /// `at`: below size(), which is not checked.
  [[nodiscard]] T& operator[](std::size_t at) noexcept { return data()[at]; }
  /// The same.
  [[nodiscard]] const T& operator[](std::size_t at) const noexcept { return data()[at]; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t count_ = 0;
};

}  // namespace v0
}  // namespace tutti
