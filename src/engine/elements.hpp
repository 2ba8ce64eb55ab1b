#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <tutti/collective.hpp>

namespace tutti::engine {

class Pieces;

/// Of what passes through a temporary, so that it stays in L1.
inline constexpr std::size_t kBlockBytes = 16 * 1024;

/// Elements of the caller's in a row, from a first one on: of one tensor, or of several.
struct Elements {
  const TensorView* view = nullptr;
  const Pieces* pieces = nullptr;  ///< instead of a view: elements of more than one tensor
  std::size_t first = 0;

  /// They lie next to each other in memory: `data` tells where.
  [[nodiscard]] bool contiguous() const noexcept { return view != nullptr && view->contiguous(); }
  /// Only where contiguous.
  [[nodiscard]] std::byte* data(std::size_t element) const noexcept {
    return static_cast<std::byte*>(view->data()) + first * element;
  }
  /// Copies `count` of them, from number `at` on, to memory in a row; unpack: the reverse.
  void pack(void* to, std::size_t at, std::size_t count) const noexcept;
  void unpack(std::size_t at, std::size_t count, const void* from) const noexcept;
};

/// Several tensors, or parts of them, as if they were one: the elements of the first one, then
/// those of the second one, ... Keeps its memory for the next call.
class Pieces {
 public:
  void assign(std::span<const Piece> pieces);
  [[nodiscard]] bool empty() const noexcept { return pieces_.empty(); }
  [[nodiscard]] std::size_t count() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  /// `count` elements from number `first` on. Of the one tensor that they lie in, where they do.
  [[nodiscard]] Elements at(std::size_t first, std::size_t count) const noexcept;
  void pack(void* to, std::size_t first, std::size_t count) const noexcept;
  void unpack(std::size_t first, std::size_t count, const void* from) const noexcept;

 private:
  [[nodiscard]] std::size_t index_of(std::size_t element) const noexcept;
  template <class Part>
  void for_each_part(std::size_t first, std::size_t count, const Part& part) const noexcept;

  std::vector<Piece> pieces_;      ///< none of them empty
  std::vector<std::size_t> ends_;  ///< number of the element behind each
};

}  // namespace tutti::engine
