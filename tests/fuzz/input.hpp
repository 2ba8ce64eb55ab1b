#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace tutti::fuzz {

/// A fuzzer's input, taken piece by piece from its front. At its end everything is zero or empty.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : bytes_(reinterpret_cast<const std::byte*>(data), size) {}

  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  /// At most so many.
  std::span<const std::byte> bytes(std::size_t most) noexcept {
    const auto front = bytes_.first(std::min(most, bytes_.size()));
    bytes_ = bytes_.subspan(front.size());
    return front;
  }
  template <class T>
  T number() noexcept {
    T value{};
    const auto front = bytes(sizeof value);
    if (!front.empty()) std::memcpy(&value, front.data(), front.size());
    return value;
  }
  /// What fills an array of the type, zeros where the input is too short.
  template <class Array>
  Array array() noexcept {
    Array filled{};
    std::ranges::copy(bytes(filled.size()), filled.begin());
    return filled;
  }
  /// Up to the next end of a line, which is taken too.
  std::string_view line() noexcept {
    const std::string_view text = rest();
    const std::string_view front = text.substr(0, text.find('\n'));
    bytes(front.size() + 1);
    return front;
  }
  [[nodiscard]] std::string_view rest() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tutti::fuzz
