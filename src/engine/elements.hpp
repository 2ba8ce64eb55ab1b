#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <tutti/backend/collective.hpp>

namespace tutti::engine {

class Pieces;

/// Size of a temporary through which elements are copied, small enough to stay in L1.
inline constexpr std::size_t kBlockBytes = 16 * 1024;

/// Consecutive elements of the caller, from `first` on: of one tensor, or of several.
struct Elements {
  const TensorView* view = nullptr;
  const Pieces* pieces = nullptr;  ///< used instead of `view` for elements of several tensors
  std::size_t first = 0;

  /// True if they are next to each other in memory: then `data` returns the address.
  [[nodiscard]] bool contiguous() const noexcept { return view != nullptr && view->contiguous(); }
  /// Only if contiguous().
  [[nodiscard]] std::byte* data(std::size_t element) const noexcept {
    return static_cast<std::byte*>(view->data()) + first * element;
  }
  /// Copies `count` of them, from number `at` on, to contiguous memory; unpack: the reverse.
  void pack(void* to, std::size_t at, std::size_t count) const noexcept;
  void unpack(std::size_t at, std::size_t count, const void* from) const noexcept;
};

/// Several tensors, or parts of them, as if they were one: the elements of the first one, then
/// those of the second one, ... Keeps its memory for the next call.
class Pieces {
 public:
  void assign(std::span<const Piece> pieces);
  [[nodiscard]] bool empty() const noexcept { return pieces_.empty(); }
  [[nodiscard]] std::span<const Piece> all() const noexcept { return pieces_; }
  [[nodiscard]] std::size_t count() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  /// `count` elements from number `first` on: as a view if they are in one tensor.
  [[nodiscard]] Elements at(std::size_t first, std::size_t count) const noexcept;
  void pack(void* to, std::size_t first, std::size_t count) const noexcept;
  void unpack(std::size_t first, std::size_t count, const void* from) const noexcept;

 private:
  [[nodiscard]] std::size_t index_of(std::size_t element) const noexcept;
  template <class Part>
  void for_each_part(std::size_t first, std::size_t count, const Part& part) const noexcept;

  std::vector<Piece> pieces_;      ///< none of them empty
  std::vector<std::size_t> ends_;  ///< number of the element after each piece
};

}  // namespace tutti::engine
