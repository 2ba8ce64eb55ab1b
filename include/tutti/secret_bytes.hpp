#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <tutti/export.hpp>

namespace tutti {
inline namespace TUTTI_EXPORT v0 {

/// The bytes of a secret, in memory that is kept out of core files and wiped when the last copy
/// goes. Copies share it, so a copy costs no memory. The bytes cannot be changed.
class SecretBytes {
 public:
  SecretBytes() noexcept = default;
  /// A copy; the bytes that are given stay the caller's to wipe.
  explicit SecretBytes(std::span<const std::byte> bytes);
  /// The same.
  SecretBytes(const std::vector<std::byte>& bytes) : SecretBytes(std::span(bytes)) {}

  [[nodiscard]] const std::byte* data() const noexcept { return bytes_.get(); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] const std::byte* begin() const noexcept { return data(); }
  [[nodiscard]] const std::byte* end() const noexcept { return data() + size_; }

  /// Takes a time that depends on the bytes.
  friend bool operator==(const SecretBytes& a, const SecretBytes& b) noexcept;

 private:
  std::shared_ptr<const std::byte> bytes_;
  std::size_t size_ = 0;
};

}  // namespace v0
}  // namespace tutti
